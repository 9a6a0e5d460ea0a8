"""How long a pause and a status take while 20 remotes hang, next to the same on an idle daemon, in the same run.

Each round measures both on the idle daemon, then has one person update 20 workers, each of which has a checkout of its
own and a remote on loopback that accepts and never answers, waits until all 20 are being asked, and measures again,
before the first of them is given up. Another operator gives the pause, a viewer asks for the status.

- **pause**: from the slash command until the job is done in the ledger. Its worker is paused already, so none of the
  worker's own time is in it.
- **status**: from the slash command until the answer is in the channel.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from slack_playground import Playground
from slack_playground.testing.people import Person
from tests.benchmarks.rows import OURS, Row, row_of
from tests.support.code.remotes import Remote, hangs
from tests.support.code.repositories import origin_and_checkout
from tests.support.homes import ROOT, a_home, demo_command
from tests.support.slack.slack_home import SlackHome, started

REMOTES, ROUNDS, TIMES = 20, 3, 8
LIMIT_SECONDS = 60.0
ACCESS = {"operators": ["U0OPERATOR", "U0ONCALL"], "approvers": ["U0APPROVER"], "viewers": ["*"]}
PAUSE, STATUS = "`pause` of another operator", "`status` of a viewer"
IDLE, HUNG = f"{OURS}, idle", f"{OURS}, {REMOTES} remotes hang"


def measure() -> list[Row]:
    """Medians of all rounds, and their ratio."""
    with tempfile.TemporaryDirectory() as name, hangs() as remote:
        folder = Path(name)
        workers = {"OrionMX": {"command": demo_command(), "start_grace_seconds": 0.2}}
        for number in range(REMOTES):
            checkout = origin_and_checkout(folder / f"code{number}").checkout
            checkout.git("remote", "set-url", "origin", remote.url)
            code = {"path": str(checkout.folder)}
            workers[f"W{number}"] = {"command": ["/bin/sleep", "86400"], "start_grace_seconds": 0.1, "code": code}
        slack = {"enabled": True, "access": ACCESS}
        with a_home(folder / "home", workers, make=SlackHome, slack=slack) as home:
            assert isinstance(home, SlackHome)
            return asyncio.run(_measured(home, remote))


async def _measured(home: SlackHome, remote: Remote) -> list[Row]:
    times: dict[tuple[str, str], list[float]] = {(what, when): [] for what in (PAUSE, STATUS) for when in (IDLE, HUNG)}
    async with Playground(ROOT / "manifest.yml", patience=LIMIT_SECONDS) as slack:
        await started(home, slack)
        run = _Run(home, slack)
        await run.pause()  # the first one ends the worker
        await run.status()
        for number in range(ROUNDS):
            await run.both(times, IDLE)
            for worker in range(REMOTES):
                await run.operator.slash(f"/supervisor update W{worker}")
            await slack.eventually(lambda count=(number + 1) * REMOTES: len(remote.asked) >= count, "all are asked")
            await slack.channel("ops").shows(REMOTES, "Checking the remote", as_=run.operator)
            await run.both(times, HUNG)
            waiting = home.rows("select count(*) as n from envelopes_t where state = 'received'")[0]["n"]
            assert waiting == REMOTES, f"{REMOTES - waiting} were given up while it was measured"
            await slack.channel("ops").shows((number + 1) * REMOTES, "didn't answer", as_=run.operator)
    return [row_of(what, when, taken, IDLE) for (what, when), taken in times.items()]


class _Run:
    """What people do, and how long it takes."""

    def __init__(self, home: SlackHome, slack: Playground) -> None:
        self._home, self._slack = home, slack
        self.operator, self._oncall, self._viewer = (slack.user(name) for name in ("operator", "oncall", "viewer"))
        self._labels = 0

    async def both(self, times: dict[tuple[str, str], list[float]], when: str) -> None:
        """Each so many times, in turns."""
        for _ in range(TIMES):
            times[PAUSE, when].append(await self.pause())
            times[STATUS, when].append(await self.status())

    async def pause(self) -> float:
        """Milliseconds until it is done."""
        self._labels += 1
        label = f"b{self._labels}"
        query = f"select 1 from jobs_t where label = '{label}' and state = 'done'"
        with closing(sqlite3.connect(f"file:{self._home.state_dir / 'ledger.db'}?mode=ro", uri=True)) as ledger:
            done: Callable[[], bool] = lambda: ledger.execute(query).fetchone() is not None  # noqa: E731
            return await self._until(self._oncall, f"/supervisor pause OrionMX {label}", done)

    async def status(self) -> float:
        """Milliseconds until it is answered."""
        messages = self._slack.channel("ops").channel.messages

        def answers() -> int:
            return sum(each.get("ephemeral_for") == self._viewer.id for each in messages.values())

        before = answers()
        return await self._until(self._viewer, "/supervisor status OrionMX", lambda: answers() > before)

    async def _until(self, who: Person, command: str, done: Callable[[], bool]) -> float:
        begun = time.perf_counter()
        await who.slash(command)
        while not done():
            await asyncio.sleep(0.002)
            assert time.perf_counter() - begun < LIMIT_SECONDS, command
        return (time.perf_counter() - begun) * 1000
