"""A home whose daemon is pointed at a local Slack, and a look into its ledger from outside."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from slack_playground import Playground
from tests.support.homes import SUPERVISOR, Daemon, Home, a_home
from tests.support.slack import short_pace
from tests.support.waiting import wait_until

ACCESS = {"operators": ["U0OPERATOR"], "approvers": ["U0APPROVER"]}

SETTLED_SECONDS = 45.0
"""For everything that waits to be done and told; what Slack asked us to wait for included."""

WAITING = """
    select 'envelope', key, state from envelopes_t where state = 'received'
    union all select 'job', task_id, state from jobs_t where state in ('queued', 'claimed', 'started')
    union all select 'approval', task_id, state from approvals_t where state in ('approved', 'executing')
    union all select kind, subject, coalesce(last_error, '') from outbox_t where state = 'pending'
"""


class SlackHome(Home):
    """A home whose daemon is pointed at a local Slack. The bot introduces itself only where a test wants that."""

    slack: dict[str, str]

    def __init__(self, folder: Path, workers: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        super().__init__(folder, workers, {**settings, "slack": {"welcome": False, **settings.get("slack", {})}})

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, **short_pace.ENVIRON, **getattr(self, "slack", {})}

    def named(self) -> list[str]:
        """The people whom the access rules name, as tests name them."""
        access = yaml.safe_load(self.config.read_text()).get("slack", {}).get("access", {})
        return sorted({who[2:].lower() for those in access.values() for who in those if str(who).startswith("U0")})

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What the ledger has; read from outside, whether or not a daemon runs."""
        path = self.state_dir / "ledger.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]

    def trail(self) -> list[dict[str, Any]]:
        """The rows of the audit trail, oldest first."""
        return self.rows("select * from audit_log_t order by audit_id")

    def settle(self) -> None:
        """Wait until nothing waits: everything that was heard is dealt with, carried out and told."""
        words = f"nothing waits any more:\n{self.daemon_log()}"
        wait_until(lambda: not self.rows(WAITING), SETTLED_SECONDS, words)

    def slack_service(self) -> dict[str, Any]:
        """What the live status says of the daemon's link to Slack."""
        return next(service for service in self.status()["services"] if service["name"] == "slack")

    def whole_log(self) -> str:
        """All that the daemons of this home wrote."""
        path = self.folder / "daemon.log"
        return path.read_text() if path.exists() else ""


@contextmanager
def a_slack_home(folder: Path, workers: dict[str, Any] | None = None, **slack: Any) -> Iterator[SlackHome]:
    """A home in Slack, with one demo worker; the operator may give commands there."""
    settings = {"enabled": True, "access": ACCESS, **slack}
    with a_home(folder, workers, make=SlackHome, slack=settings) as made:
        assert isinstance(made, SlackHome)
        yield made


async def started(
    home: Home, slack: Playground, program: Sequence[str] = SUPERVISOR, *, connections: int = 1
) -> Daemon:
    """The daemon, once it is up and this Slack has so many connections."""
    assert isinstance(home, SlackHome)
    for name in home.named():  # whom the configuration names, Slack knows
        slack.user(name)
    home.slack = slack.environment
    daemon = await asyncio.to_thread(home.start_daemon, program=program)
    await slack.connected(connections)
    return daemon


async def sent_by_shell(home: SlackHome, text: str) -> None:
    """A command given on the host, and carried out."""
    answer = await asyncio.to_thread(home.json, "send", text, "--wait")
    assert answer["success"], answer


async def is_well(home: SlackHome, worker_id: str) -> None:
    """It's on record that the worker is well: its start grace is over."""
    query = f"select 1 from conditions_t where target_id = '{worker_id}' and condition = 'well'"
    await asyncio.to_thread(wait_until, lambda: home.rows(query), SETTLED_SECONDS, f"{worker_id} is well")


async def settled(home: SlackHome) -> None:
    """Everything that was heard is dealt with, carried out and told."""
    await asyncio.to_thread(home.settle)


async def asked(home: Home, *words: str) -> Any:
    """What a command of the shell prints with `--json`."""
    return await asyncio.to_thread(home.json, *words)
