"""Being asked to end: by Ctrl-C, by TERM, or because the terminal is closed. Asked twice is asked once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class Asked:
    """`stopping` is set from the first signal on; `by` is that signal."""

    def __init__(self, again: Callable[[], None]) -> None:
        self.stopping = asyncio.Event()
        self.by: signal.Signals | None = None
        self._again = again

    def listen(self) -> None:
        """From here on, a signal only asks. One that is ignored on purpose (nohup) stays ignored."""
        loop = asyncio.get_running_loop()
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            if number != signal.SIGINT and signal.getsignal(number) is signal.SIG_IGN:
                continue
            if os.name == "posix":
                loop.add_signal_handler(number, self._ask, number)
            else:
                signal.signal(number, lambda got, _frame: _later(loop, self._ask, got))

    def _ask(self, number: int) -> None:
        if self.by is not None:
            self._again()
            return
        self.by = signal.Signals(number)
        self.stopping.set()


def _later(loop: asyncio.AbstractEventLoop, call: Callable[[int], None], number: int) -> None:
    loop.call_soon_threadsafe(call, number)
