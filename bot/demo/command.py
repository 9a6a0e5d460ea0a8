"""The program of `supervisor demo`: starts everything, greets in the channel, and cleans up at the first signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

from bot.demo.fleet import HOSTS
from bot.demo.fleet_tour import FLEET_SCENES
from bot.demo.home import WORKER, DemoError
from bot.demo.stage import APPROVER, CHANNEL, Stage, StoppedError, set_up
from bot.demo.tour import SCENES, tour
from slack_playground.values import Json

STARTING = "Starting a supervisor, its worker and a local Slack…"
STARTING_FLEET = "Starting a hub, three hosts, their workers, a NATS server and a local Slack…"
WORDS = """\
The demo is running: a supervisor, its worker {worker}, and a local Slack.

  Open  {address}

You're the operator there. The channel #{channel} lists five things to try.
To read the audit trail, run this in a second terminal:

  {line}

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


FLEET_WORDS = """\
The demo is running: a hub, three hosts with a worker each, and a local Slack.

  Open  {address}

You're the operator there. The channel #{channel} lists five things to try.
To see the hosts, run this in a second terminal:

  {line}

Press Ctrl-C to stop everything.
"""
FLEET_GREETING = "👋 *Welcome to the demo of a fleet.* One bot, three hosts with one worker each. Five things to try:"
FLEET_TO_TRY = (
    ("`/supervisor status`", "Check all hosts. A worker of another host is named `HOST/WORKER`."),
    ("`/supervisor restart all hotfix`", "One command, one message: each host reports to it. Or try `host:web-1`."),
    (
        "`/supervisor rollback all 1 --batch 1 --healthy 1m slow since noon`",
        "A rolling change, one host after the other. Choose *{approver}* in *Act as*, at the top, and approve it.",
    ),
    (
        "`kill -9 {pid}`",
        "Run this in a terminal. One alert tells that web-3 is unresponsive. Its worker runs on. Then: `{again}`",
    ),
    ("*supervisor*, under *Apps*", "The Home tab shows all hosts and has a form for each command."),
)


def greeting(stage: Stage) -> Json:
    """The demo's message in the channel."""
    words: dict[str, object] = {"file": stage.home.incoming / "empty.txt", "approver": APPROVER}
    if stage.hosts:
        last = stage.hosts[HOSTS[-1]]
        words |= {"pid": last.daemon.pid, "again": last.home.line("daemon", "start")}
    blocks: list[Json] = []
    for number, (task, result) in enumerate(FLEET_TO_TRY if stage.hosts else TO_TRY, start=1):
        text = f"{number}.  {task}\n{result}".format_map(words)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": MORE}]})
    author = {"user": "U0DEMO", "bot_id": "B0DEMO", "username": "Demo", "icon_emoji": ":seedling:"}
    said = FLEET_GREETING if stage.hosts else GREETING
    return author | {"text": said, "attachments": [{"color": "#2f6fb0", "blocks": blocks}]}


async def run_stage(stage: Stage) -> None:
    """Greet in the channel and print the address, then wait forever."""
    channel = stage.slack.channel(CHANNEL).channel
    stage.slack.server.world.post(channel, greeting(stage))
    line = stage.home.line("fleet", "list") if stage.hosts else stage.home.line("audit")
    words = (FLEET_WORDS if stage.hosts else WORDS).format(
        worker=WORKER, address=stage.address, channel=CHANNEL, line=line
    )
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


def run(*, port: int, guided: bool, fleet: bool = False) -> int:
    """Run the demo to its end; returns the exit code."""
    return asyncio.run(_run(port, guided=guided, fleet=fleet))


async def _run(port: int, *, guided: bool, fleet: bool) -> int:
    stop = StopSignals(lambda: _say(CLEANING_UP))
    stop.listen()
    code, trouble, left = SUCCESS, "", list[str]()
    _say(STARTING_FLEET if fleet else STARTING)
    scenes = FLEET_SCENES if fleet else SCENES
    try:
        async with set_up(port, stop.stopping, left, fleet=fleet) as stage:
            if guided:
                code = SUCCESS if await stage.during(tour(stage, scenes)) else FAILURE
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
