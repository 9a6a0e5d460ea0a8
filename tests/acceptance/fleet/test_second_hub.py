"""Two machines for one hub: the other takes over when one dies or freezes, and nothing is done or posted twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from tests.support.daemon.hub_pairs import TAKEOVER_SECONDS, HubHome, HubPair, a_hub_pair
from tests.support.storage.databases import new_database
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.sampled(of_file=1),
    pytest.mark.playground(patience=20),
    pytest.mark.timeout(150),
]

DONE = "select action, label from audit_log_t where action in ('RESTART_WATCHER', 'PAUSE', 'RESUME')"


@pytest.fixture
def pair(tmp_path: Path, postgresql: str) -> Iterator[HubPair]:
    slack: dict[str, Any] = {"approvals": {"required_for": ["pause"]}, "alert_channel": "C0OPS"}
    with new_database(postgresql) as url, a_hub_pair(tmp_path, url, **slack) as made:
        yield made


def assert_once(pair: HubPair, slack: Playground, *labels: str) -> None:
    """Each of these commands was carried out once, no message was posted twice, and the trail is whole."""
    rows = pair.hubs["second"].rows(DONE)
    assert Counter(row["label"].rpartition(" ")[2] for row in rows) == dict.fromkeys(labels, 1), rows
    posted = Counter(str(call["arguments"]["metadata"]) for call in slack.calls("chat.postMessage"))
    assert {subject for subject, count in posted.items() if count > 1} == set()
    for hub in pair.hubs.values():
        verified = hub.supervisor("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def one_hub(pair: HubPair) -> list[HubHome]:
    return [hub for hub in pair.hubs.values() if hub.is_hub]


async def test_a_second_hub_takes_over_from_a_killed_one_and_nothing_is_done_or_posted_twice(
    pair: HubPair, slack: Playground
) -> None:
    """The first one dies after Slack has shown an approval and before that's on record."""
    operator, approver, ops = slack.user("operator"), slack.user("approver"), slack.channel("ops")
    await pair.start(slack, (sys.executable, "-m", "tests.support.programs.armed", "message.post:after#2"))
    shown = await asyncio.to_thread(pair.hubs["second"].supervisor, "status")
    assert (shown.returncode, "standby for" in shown.stdout) == (0, True), shown
    refused = await asyncio.to_thread(pair.hubs["second"].supervisor, "send", "restart web-1/fetcher")
    assert (refused.returncode, "standby for" in refused.stderr) == (1, True), refused

    card = await operator.slash("/supervisor restart web-1/fetcher one")
    await card.becomes("web-1/fetcher restarted")
    card = await operator.slash("/supervisor pause web-1/fetcher two")
    assert await asyncio.to_thread(pair.daemons["first"].wait, 30) == -signal.SIGKILL
    died_at = time.monotonic()
    os.kill(pair.host.running_copies("fetcher")[0], signal.SIGSTOP)
    await asyncio.to_thread(pair.wait_taken_over, "second")
    assert time.monotonic() - died_at < TAKEOVER_SECONDS
    await slack.connected(1)
    await asyncio.to_thread(pair.wait_known, "second")
    await ops.shows("frozen")
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("web-1/fetcher paused")
    await asyncio.to_thread(pair.settle, "second")
    await asyncio.to_thread(assert_once, pair, slack, "one", "two")


async def test_a_frozen_hub_and_one_without_its_connection_are_replaced_and_write_nothing_more(
    pair: HubPair, slack: Playground
) -> None:
    await pair.start(slack)
    first, second = pair.hubs["first"], pair.hubs["second"]
    operator = slack.user("operator")
    card = await operator.slash("/supervisor restart web-1/fetcher one")
    pair.signal("first", signal.SIGSTOP)
    frozen_at = time.monotonic()
    await asyncio.to_thread(pair.wait_taken_over, "second")
    assert time.monotonic() - frozen_at < TAKEOVER_SECONDS
    await asyncio.to_thread(pair.wait_known, "second")
    answer = await asyncio.to_thread(second.json, "send", "restart web-1/fetcher two", "--wait")
    assert answer["success"], answer
    await card.becomes("web-1/fetcher restarted")
    before = await asyncio.to_thread(second.rows, "select life, pid, hostname from supervisors_t")
    pair.signal("first", signal.SIGCONT)
    await asyncio.to_thread(wait_until, lambda: first.stands_by, 20.0, "the thawed one stands by")
    assert "isn't the hub any more" in first.whole_log()
    await asyncio.to_thread(pair.settle, "second")
    assert second.is_hub
    assert await asyncio.to_thread(second.rows, "select life, pid, hostname from supervisors_t") == before
    second.rows("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'")
    await asyncio.to_thread(wait_until, lambda: "isn't the hub any more" in second.whole_log(), 20.0, "it stops")
    await asyncio.to_thread(wait_until, lambda: len(one_hub(pair)) == 1, 30.0, "one of them is the hub")
    answer = await asyncio.to_thread(one_hub(pair)[0].json, "send", "resume web-1/fetcher three", "--wait")
    assert answer["success"], answer
    await asyncio.to_thread(assert_once, pair, slack, "one", "two", "three")
