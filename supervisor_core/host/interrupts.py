"""Being told to stop by a signal: noted, and looked at between two steps, so that none is left half done.

Telling systemd that the daemon is up, that it is well, or that it is about to go; elsewhere nothing happens.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")


class StopRequest:
    """`by` is the signal that asked us to stop; empty as long as none did."""

    by = ""

    def __bool__(self) -> bool:
        return bool(self.by)


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """While this lasts a signal ends nothing, it only is noted. Elsewhere than in the main thread none is heard.

    What whoever started us has ignored (`nohup` and SIGHUP) stays ignored.
    """
    told = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield told
        return

    def hear(number: int, _frame: FrameType | None) -> None:
        told.by = signal.Signals(number).name

    known = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    numbers = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, hear) for number in numbers}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


log = logging.getLogger(__name__)
