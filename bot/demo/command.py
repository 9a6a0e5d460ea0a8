"""The program behind `supervisor demo`: everything up, shown or toured, and taken away again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from bot.demo.show import show
from bot.demo.signals import Asked
from bot.demo.stage import StoppedError, set_up
from bot.demo.tour import tour
from bot.demo.trouble import DemoError

SUCCESS, FAILURE, INTERRUPTED = 0, 1, 130


def run(*, port: int, guided: bool) -> int:
    """Run the demo until it is over; returns the exit code."""
    return asyncio.run(_run(port, guided=guided))


async def _run(port: int, *, guided: bool) -> int:
    asked = Asked(lambda: _say("Still cleaning up; that takes a few seconds at most."))
    asked.listen()
    code, trouble, left = SUCCESS, "", list[str]()
    _say("Starting a supervisor, its worker and a local Slack …")
    try:
        async with set_up(port, asked.stopping, left) as stage:
            if guided:
                code = SUCCESS if await stage.during(tour(stage)) else FAILURE
            else:
                await stage.during(show(stage))
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
