"""The command line with its effects recorded: `python -m tests.support.programs.traced FILE run …`.

An effect is a row written, a file replaced or removed, a program started, a signal, a message to Slack, or work handed
to another thread or task. Each is a line of JSON: the moment, the effect in words, and the functions of
`supervisor_core` and `bot` on the stack, outermost first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

OURS = ("supervisor_core.", "bot.")
NOT_COUNTED = "supervisor_core.cli"
"""The bottom of every stack of the main thread."""

DESCRIPTION_LENGTH = 300
CHANGES = ("INSERT", "UPDATE", "DELETE")


def _statement(given: dict[str, Any]) -> str:
    """`INSERT jobs_t`; empty for a statement that changes nothing."""
    words = str(given["statement"]).replace("INTO ", "").replace("FROM ", "").replace('"', "").split()
    return " ".join(words[:2]) if words[0] in CHANGES else ""


def _program(given: dict[str, Any]) -> str:
    """`start git revert …`: of git without its own options."""
    program, *words = [str(given["args"])] if isinstance(given["args"], str) else map(str, given["args"])
    if program == "git":
        while words and words[0].startswith("-"):
            del words[: 2 if words[0] in ("-c", "-C") else 1]
    return " ".join(["start", program, *words])


PYTHON_EFFECTS: dict[tuple[str, str], Callable[[dict[str, Any]], str]] = {
    ("sqlalchemy.engine.default", "DefaultDialect.do_execute"): _statement,
    ("sqlalchemy.engine.default", "DefaultDialect.do_executemany"): _statement,
    ("subprocess", "Popen.__init__"): _program,
    ("slack_sdk.web.async_base_client", "AsyncBaseClient.api_call"): lambda given: f"call {given['api_method']}",
    ("aiohttp.client_ws", "ClientWebSocketResponse.send_str"): lambda given: f"send {given['data']}",
    ("concurrent.futures.thread", "ThreadPoolExecutor.submit"): lambda _: "hand over to a thread",
    ("asyncio.base_events", "BaseEventLoop.call_soon_threadsafe"): lambda _: "hand over to the loop",
    ("asyncio.tasks", "create_task"): lambda _: "hand over to a task",
    ("asyncio.locks", "Event.set"): lambda _: "wake a task",
}
"""Functions of Python and of libraries, and a description of the effect from their arguments; empty for none."""

BUILTIN_EFFECTS = {
    signal.pidfd_send_signal: "signal",
    os.replace: "replace a file",
    os.rename: "replace a file",
    os.unlink: "remove a file",
}


class Recorder:
    """Writes the effects of this process to a file, each at once: the process may be killed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._names: dict[CodeType, str] = {}
        self._effects: dict[CodeType, Callable[[dict[str, Any]], str] | None] = {}

    def start(self) -> None:
        """Record this thread, and every thread that is started from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            if words := BUILTIN_EFFECTS.get(argument):  # type: ignore[call-overload]
                self._write(words, frame)
        elif event == "call":
            code = frame.f_code
            if code not in self._effects:
                self._effects[code] = PYTHON_EFFECTS.get((frame.f_globals.get("__name__", ""), code.co_qualname))
            describe = self._effects[code]
            if describe and (words := describe(frame.f_locals)):
                self._write(words, frame)

    def _write(self, effect: str, frame: FrameType) -> None:
        stack = list(self._stack(frame))[::-1]
        if stack:
            line = json.dumps([time.monotonic(), effect[:DESCRIPTION_LENGTH], stack])
            os.write(self._file, f"{line}\n".encode())

    def _stack(self, frame: FrameType | None) -> Iterator[str]:
        while frame is not None:
            if name := self._name(frame):
                yield name
            frame = frame.f_back

    def _name(self, frame: FrameType) -> str:
        """`module:function`; empty for a nested or special function, and for a function that isn't ours."""
        code = frame.f_code
        if code not in self._names:
            module = str(frame.f_globals.get("__name__", ""))
            counts = module.startswith(OURS) and not module.startswith(NOT_COUNTED)
            special = "<" in code.co_qualname or code.co_name.startswith("__")
            self._names[code] = f"{module}:{code.co_qualname}" if counts and not special else ""
        return self._names[code]


if __name__ == "__main__":
    Recorder(sys.argv[1]).start()
    from supervisor_core.cli import main

    sys.exit(main(sys.argv[2:]))
