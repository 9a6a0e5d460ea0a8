"""A token that is revoked ends the Slack service alone: workers stay supervised, and `status` says so with 1."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", approvals={"required_for": ["restart"]}) as made:
        yield made


async def test_workers_stay_supervised_and_what_waits_for_slack_is_told_once_it_is_back(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    card = await slack.user("operator").slash("/supervisor restart hotfix")
    await card.shows("Approval needed")
    slack.revoke_token()
    await slack.disconnect("close")

    def is_said() -> bool:
        done = home.supervisor("status", "--json")
        return done.returncode == 1 and "token_revoked" in str(home.slack_service()["last_error"])

    await asyncio.to_thread(wait_until, is_said, 20, "status says that the token is revoked, and exits with 1")
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGKILL)
    again = lambda: home.running_copies("OrionMX") not in ([], [pid])  # noqa: E731
    await asyncio.to_thread(wait_until, again, 20, "the worker that died is started again")
    done = await asyncio.to_thread(home.supervisor, "send", "pause", "--wait")
    assert done.returncode == 0, done.stderr
    (waiting,) = await asyncio.to_thread(home.json, "approvals")
    stale = await asyncio.to_thread(home.supervisor, "approvals", "approve", waiting["approval_id"])
    assert stale.returncode == 1, "it was paused since it was asked for"
    slack.revoke_token(revoked=False)
    await slack.connected()
    await card.becomes("out of date")
    await settled(home)
