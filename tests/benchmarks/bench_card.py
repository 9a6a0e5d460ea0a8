"""The time from a slash command to its card, beside a bare Bolt app that does `ack` and `chat.postMessage`.

Measured by the local Slack, from the envelope that it sends to the message that it takes, and to both the message and
the acknowledgement: Bolt's listener has posted before Bolt acknowledges, because it looks for that every 10 ms. The
local Slack runs in this process and every app in one of its own. Bolt asks nobody, stores nothing and does nothing. The
daemon stores the envelope and acknowledges it, asks Slack who gave the command, stores the job and its message, and
starts the job, each with a full sync; the attempt to post is stored before the call, too.

`pause` ends within milliseconds, `restart` takes as long as the worker needs to stop and to stay up. Both messages are
posted once the command is stored, while its job begins.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slack_playground import Playground
from tests.benchmarks.ack_peers import CARD, COMMAND
from tests.benchmarks.bench_ack import PEER, PEERS, START_SECONDS, running_peer, without_garbage_collection
from tests.benchmarks.rows import FLOOR, OURS, Row, row_of
from tests.support.homes import ROOT
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled

ROUNDS = 3
WARM_UP, COMMANDS = 3, 12
PAUSE_SECONDS = 0.4
"""Between two commands, so that none waits for the rate limit of posts in a channel."""

APPS = (OURS, *(app for app in PEERS if app != FLOOR))
RESTART = "restart OrionMX"

Times = tuple[float, float]


def measure() -> list[Row]:
    """Every app in turns."""
    found = asyncio.run(_in_turns())
    steps = ("until its message is posted", "until it's acknowledged and its message is posted")
    return [
        row_of(step, f"{OURS}, `{text}`" if app == OURS else app, [each[number] for each in times], PEER)
        for number, step in enumerate(steps)
        for (text, app), times in found.items()
    ]


async def _in_turns() -> dict[tuple[str, str], list[Times]]:
    found: dict[tuple[str, str], list[Times]] = {}
    async with Playground(ROOT / "manifest.yml", patience=START_SECONDS) as slack:
        for turn in range(ROUNDS):
            first = turn % len(APPS)
            for app in APPS[first:] + APPS[:first]:
                with tempfile.TemporaryDirectory() as folder, _running(app, slack, Path(folder)) as home:
                    await slack.connected()
                    for text in (CARD, RESTART) if app == OURS else (CARD,):
                        found.setdefault((text, app), []).extend(await _commands(slack, home, text))
                await slack.connected(0)
                slack.server.world.reset()
    return found


@contextmanager
def _running(app: str, slack: Playground, folder: Path) -> Iterator[SlackHome | None]:
    slack.user("operator"), slack.user("approver")
    if app != OURS:
        with running_peer(PEERS[app], slack, folder):
            yield None
        return
    with a_slack_home(folder / "home") as home:
        home.slack = slack.environment
        home.start_daemon(wait=False)  # not waited for here: it needs the Slack that runs in this thread
        yield home


async def _commands(slack: Playground, home: SlackHome | None, text: str) -> list[Times]:
    times = []
    with without_garbage_collection():
        for _ in range(WARM_UP + COMMANDS):
            times.append(await _one(slack, text))
            if home is not None:
                await settled(home)
            await asyncio.sleep(PAUSE_SECONDS)
    return times[WARM_UP:]


async def _one(slack: Playground, text: str) -> Times:
    """The milliseconds from the envelope of a command to its message, and to both that and the acknowledgement."""
    entries = slack.server.world.journal
    since = int(entries.entries[-1]["n"])
    operator, ops = slack.user("operator").user, slack.channel("ops").channel

    def posted() -> float | None:
        calls = entries.select(kind="api", since=since)
        return next((each["at"] for each in calls if each["method"] == "chat.postMessage"), None)

    await slack.server.people.slash(operator, ops, f"{COMMAND} {text}")
    await slack.eventually(lambda: posted() is not None, f"no message of {text}")
    sent, acked = (next(each["at"] for each in entries.select(kind=kind, since=since)) for kind in ("envelope", "ack"))
    message = posted() or 0.0
    return (message - sent) * 1000, (max(message, acked) - sent) * 1000
