"""The program of `supervisor demo`: starts everything, greets in the channel, and cleans up at the first signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bot.demo.home import WORKER, DemoError
from bot.demo.stage import APPROVER, CHANNEL, Stage, StoppedError, set_up
from bot.demo.tour import tour
from slack_playground.values import Json

STARTING = "Starting a supervisor, its worker and a local Slack…"
WORDS = """\
The demo is running: a supervisor, its worker {worker}, and a local Slack.

  Open  {address}

You're the operator there. The channel #{channel} lists five things to try.
To read the audit trail, run this in a second terminal:

  {audit}

Press Ctrl-C to stop everything.
"""
CLEANING_UP = "Cleaning up. This takes a few seconds."
STOPPED = "Stopped. Nothing is left behind."

GREETING = "👋 *Welcome to the demo.* A supervisor and one worker are running. Five things to try:"
TO_TRY = (
    ("`/supervisor status`", "Check the worker."),
    ("`/supervisor pause hotfix test`", "One message goes from pausing to paused. Then type `@supervisor resume`."),
    (
        "`touch {file}`",
        "Run this in a terminal to crash the worker. Press *Why?* on the alert, then remove the file.",
    ),
    ("`/supervisor rollback 1 slow since noon`", "Choose *{approver}* in *Act as*, at the top, and approve it."),
    ("*supervisor*, under *Apps*", "The Home tab shows all workers and has a form for each command."),
)
MORE = "*Traffic*, at the top right, shows every request between the bot and Slack."


def greeting(empty_file: Path) -> Json:
    """The demo's message in the channel; `empty_file` crashes the worker."""
    blocks: list[Json] = []
    for number, (task, result) in enumerate(TO_TRY, start=1):
        text = f"{number}.  {task}\n{result}".format(file=empty_file, approver=APPROVER)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": MORE}]})
    author = {"user": "U0DEMO", "bot_id": "B0DEMO", "username": "Demo", "icon_emoji": ":seedling:"}
    return author | {"text": GREETING, "attachments": [{"color": "#2f6fb0", "blocks": blocks}]}


async def run_stage(stage: Stage) -> None:
    """Greet in the channel and print the address, then wait forever."""
    channel = stage.slack.channel(CHANNEL).channel
    stage.slack.server.world.post(channel, greeting(stage.home.incoming / "empty.txt"))
    words = WORDS.format(worker=WORKER, address=stage.address, channel=CHANNEL, audit=stage.home.line("audit"))
    sys.stdout.write(f"\n{words}")
    sys.stdout.flush()
    await asyncio.Event().wait()


NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class StopSignals:
    """Sets `stopping` at the first signal and keeps that signal in `by`."""

    def __init__(self, again: Callable[[], None]) -> None:
        self.stopping = asyncio.Event()
        self.by: signal.Signals | None = None
        self._again = again

    def listen(self) -> None:
        """Handle signals from now on. A signal that is ignored on purpose, as by nohup, stays ignored."""
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
    """Run the demo to its end; returns the exit code."""
    return asyncio.run(_run(port, guided=guided))


async def _run(port: int, *, guided: bool) -> int:
    stop = StopSignals(lambda: _say(CLEANING_UP))
    stop.listen()
    code, trouble, left = SUCCESS, "", list[str]()
    _say(STARTING)
    try:
        async with set_up(port, stop.stopping, left) as stage:
            if guided:
                code = SUCCESS if await stage.during(tour(stage)) else FAILURE
            else:
                await stage.during(run_stage(stage))
    except StoppedError:
        unfinished = FAILURE if guided else SUCCESS  # an interrupted tour has checked nothing
        code = INTERRUPTED if stop.by == signal.SIGINT else unfinished
    except DemoError as error:
        trouble = str(error)
    for words in filter(None, [trouble, *left]):
        _complain(words)
    if not left:
        _say(STOPPED)
    return FAILURE if trouble or left else code


def _say(text: str) -> None:
    """Print a line; a closed terminal doesn't stop the cleanup."""
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"supervisor: {text}\n")
