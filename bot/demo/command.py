"""The program of `supervisor demo`: starts everything, greets in the channel, and cleans up at the first signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TextIO

from bot.demo.host import WORKER
from bot.demo.scenes import FLEET_SCENES, SCENES
from bot.demo.stage import APPROVER, CHANNEL, HOSTS, Stage, StoppedError, set_up
from bot.demo.tour import Tour
from slack_playground.values import Json
from supervisor_core.common.errors import SupervisorError

RUNNING = """
The demo is running: {what}, and a local Slack.

  Open  {address}

You're the operator there. The channel #{channel} lists five things to try.
Try this in a second terminal:

  {line}

Press Ctrl-C to stop everything."""

GREETING = "👋 *Welcome to the demo.* A supervisor and one worker are running. Five things to try:"
TO_TRY = (
    ("`/supervisor status`", "Check the worker."),
    ("`/supervisor pause hotfix test`", "One message goes from pausing to paused. Then type `@supervisor resume`."),
    ("`touch {file}`", "Run this in a terminal to crash the worker. Press *Why?*, then remove the file."),
    ("`/supervisor rollback 1 slow since noon`", "Choose *{approver}* in *Act as*, at the top, and approve it."),
    ("*supervisor*, under *Apps*", "The Home tab shows all workers and has a form for each command."),
)
MORE = "*Traffic*, at the top right, shows every request between the bot and Slack."

FLEET_GREETING = "👋 *Welcome to the demo of a fleet.* One bot, three hosts with one worker each. Five things to try:"
FLEET_TO_TRY = (
    ("`/supervisor status`", "Check all hosts. A worker of another host is named `HOST/WORKER`."),
    ("`/supervisor restart all hotfix`", "One command, one message: each host reports to it. Or try `host:web-1`."),
    ("`/supervisor rollback all 1 --batch 1 --healthy 1m`", "One host after the other. Approve it as *{approver}*."),
    ("`kill -9 {pid}`", "Run this in a terminal to end web-3's daemon. Its worker runs on. Then: `{again}`"),
    ("*supervisor*, under *Apps*", "The Home tab shows all hosts and has a form for each command."),
)


def greeting(stage: Stage) -> Json:
    """The demo's message in the channel."""
    values: dict[str, object] = {"file": stage.home.incoming / "empty.txt", "approver": APPROVER}
    if stage.hosts:
        last = stage.hosts[HOSTS[-1]]
        values |= {"pid": last.process.pid, "again": last.line("daemon", "start")}
    blocks: list[Json] = []
    for number, (task, result) in enumerate(FLEET_TO_TRY if stage.hosts else TO_TRY, start=1):
        text = f"{number}.  {task}\n{result}".format_map(values)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": MORE}]})
    author = {"user": "U0DEMO", "bot_id": "B0DEMO", "username": "Demo", "icon_emoji": ":seedling:"}
    headline = FLEET_GREETING if stage.hosts else GREETING
    return author | {"text": headline, "attachments": [{"color": "#2f6fb0", "blocks": blocks}]}


async def run_stage(stage: Stage) -> None:
    """Greet in the channel and print the address, then wait forever."""
    stage.slack.server.world.post(stage.slack.channel(CHANNEL).channel, greeting(stage))
    running = "a hub, three hosts with a worker each" if stage.hosts else f"a supervisor, its worker {WORKER}"
    line = stage.home.line(*(("fleet", "list") if stage.hosts else ("audit",)))
    _print(RUNNING.format(what=running, address=stage.address, channel=CHANNEL, line=line))
    await asyncio.Event().wait()


SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
INTERRUPTED = 130


def run(*, port: int, guided: bool, fleet: bool = False) -> int:
    """Run the demo to its end; returns the exit code."""
    return asyncio.run(_run(port, guided=guided, fleet=fleet))


async def _run(port: int, *, guided: bool, fleet: bool) -> int:
    stopping, signals, problems, code = asyncio.Event(), list[int](), list[str](), 0
    loop = asyncio.get_running_loop()

    def stop(number: int, _frame: object) -> None:
        if signals:
            _print("Cleaning up. This takes a few seconds.")
        signals.append(number)
        loop.call_soon_threadsafe(stopping.set)

    for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:  # ignored on purpose, as by nohup
            signal.signal(number, stop)
    _print(f"Starting {'a fleet' if fleet else 'a supervisor, its worker'} and a local Slack…")
    try:
        async with set_up(port, stopping, problems, fleet=fleet) as stage:
            if guided:
                code = int(not await stage.during(Tour(stage).play(FLEET_SCENES if fleet else SCENES)))
            else:
                await stage.during(run_stage(stage))
    except StoppedError:
        code = INTERRUPTED if signals[0] == signal.SIGINT else int(guided)  # such a tour has checked nothing
    except SupervisorError as error:
        problems.insert(0, str(error))
    for problem in problems:
        _print(f"supervisor: {problem}", sys.stderr)
    _print("" if problems else "Stopped. Nothing is left behind.")
    return 1 if problems else code


def _print(text: str, out: TextIO | None = None) -> None:
    """Print a line; a closed terminal doesn't stop the cleanup."""
    with contextlib.suppress(OSError):
        print(text, file=out or sys.stdout, flush=True)
