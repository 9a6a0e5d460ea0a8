"""Problems with their place, and the report that gathers them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MESSAGE = "message"
MODAL = "modal"
HOME = "home"
EVERYWHERE = frozenset({MESSAGE, MODAL, HOME})

_STEP = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class Problem:
    """One reason for Slack to refuse a payload: the place, what's expected there, and Slack's error code."""

    path: str  # blocks[2].elements[0].text
    what: str
    code: str = "invalid_blocks"

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer, the form that Slack's own messages have."""
        steps = _STEP.sub(r".\1", self.path).split(".")
        return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps if step)

    def __str__(self) -> str:
        return f"{self.path or 'payload'}: {self.what}"


@dataclass
class Report:
    """The problems so far in one message or view, and the ids that may occur only once."""

    surface: str
    code: str
    unique_blocks: bool = True
    problems: list[Problem] = field(default_factory=list)
    text: int = 0  # characters in all text objects so far
    _blocks: dict[str, str] = field(default_factory=dict)
    _actions: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, what: str, code: str | None = None) -> None:
        self.problems.append(Problem(path, what, code or self.code))

    def claim_block(self, block_id: str, path: str) -> None:
        """Note a block_id, which only one block of a message or view may have."""
        first = self._blocks.setdefault(block_id, path)
        if first != path and self.unique_blocks:
            self.add(path, f"a block_id must be unique; {first} already has {block_id[:40]!r}")

    def claim_action(self, action_id: str, path: str) -> None:
        """Note an action_id, which only one element of a block may have."""
        first = self._actions.setdefault(action_id, path)
        if first != path:
            self.add(path, f"an action_id must be unique in its block; {first} already has {action_id[:40]!r}")

    @contextmanager
    def block(self) -> Iterator[None]:
        """Within, action_ids are those of one block."""
        outer, self._actions = self._actions, {}
        try:
            yield
        finally:
            self._actions = outer

    @contextmanager
    def own_blocks(self) -> Iterator[None]:
        """Within, block_ids are counted anew: each attachment has its own."""
        outer, self._blocks = self._blocks, {}
        try:
            yield
        finally:
            self._blocks = outer
