"""The program behind `supervisor demo`: it starts everything, says what to try, and cleans up at the first signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

from bot.demo.home import WORKER, DemoError
from bot.demo.stage import Stage, StoppedError, set_up
from bot.demo.tour import tour

WORDS = """\
Up on this machine: a supervisor, its worker {worker}, and a Slack of their own.

  Open  {address}

There you are the operator, in #ops. "Act as", at the top, makes you somebody else.
Five things to try:

  1. {status:36} how the worker is
  2. {pause:36} one message goes from pausing to paused
  3. {resume:36} the same words work in a mention
  4. {refused:36} refused; and the refusal is written down
  5. who did what, in a second terminal:

     {audit}

Ctrl-C ends all of it and leaves nothing behind.
"""


async def run_stage(stage: Stage) -> None:
    """Say it, then wait for ever."""
    words = WORDS.format(
        worker=WORKER,
        address=stage.address,
        status="/supervisor status",
        pause="/supervisor pause hotfix test",
        resume=f"@{stage.slack.server.world.bot.name} resume",
        refused="as the viewer: /supervisor pause",
        audit=stage.home.line("audit"),
    )
    sys.stdout.write(f"\n{words}")
    sys.stdout.flush()
    await asyncio.Event().wait()


NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class StopSignals:
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


SUCCESS, FAILURE, INTERRUPTED = 0, 1, 130


def run(*, port: int, guided: bool) -> int:
    """Run the demo until it is over; returns the exit code."""
    return asyncio.run(_run(port, guided=guided))


async def _run(port: int, *, guided: bool) -> int:
    asked = StopSignals(lambda: _say("Still cleaning up; that takes a few seconds at most."))
    asked.listen()
    code, trouble, left = SUCCESS, "", list[str]()
    _say("Starting a supervisor, its worker and a local Slack …")
    try:
        async with set_up(port, asked.stopping, left) as stage:
            if guided:
                code = SUCCESS if await stage.during(tour(stage)) else FAILURE
            else:
                await stage.during(run_stage(stage))
    except StoppedError:
        unfinished = FAILURE if guided else SUCCESS  # a tour that was not played to its end has shown nothing
        code = INTERRUPTED if asked.by == signal.SIGINT else unfinished
    except DemoError as error:
        trouble = str(error)
    for words in filter(None, [trouble, *left]):
        _complain(words)
    if not left:
        _say("Nothing of it is left behind.")
    return FAILURE if trouble or left else code


def _say(text: str) -> None:
    """A terminal that is closed hears nothing, and that stops nobody from cleaning up."""
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"supervisor: {text}\n")
