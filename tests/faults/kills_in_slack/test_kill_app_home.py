"""`kill -9` of the daemon while somebody's page is published: the next run publishes it with the state by then."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import ROOT
from tests.support.programs import armed as arming
from tests.support.programs.armed import distinct
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=20)

POINTS = ("home.publish:before", "home.publish:after", "outbox_t.sent:before")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home") as made:
        yield made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(POINTS))
async def test_a_page_is_brought_up_to_date_after_a_crash(home: SlackHome, slack: Playground, point: str) -> None:
    daemon = await started(home, slack, arming.armed(point))
    operator = slack.user("operator")
    page = await operator.opens_home()
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL, home.daemon_log()
    await asyncio.to_thread(home.supervisor, "send", "pause")
    await started(home, slack)
    await page.shows("pause OrionMX")
    await settled(home)
    assert [row["state"] for row in home.rows("select state from outbox_t where kind = 'home'")] == ["sent"]
