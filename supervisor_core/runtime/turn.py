"""One at a time, without a queue to stand in: who does not get the turn is called when it is free again."""

from __future__ import annotations

from collections.abc import Callable


class Turn:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: list[Callable[[], None]] = []

    def take(self, call: Callable[[], None]) -> bool:
        """Whether it is the caller's turn now; if not, `call` is called once when somebody gives it back."""
        if self._taken:
            if call not in self._waiting:
                self._waiting.append(call)
            return False
        self._taken = True
        return True

    def give_back(self) -> None:
        """Let the others try."""
        self._taken = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
