"""After a change of its code a worker is watched: the card says how it does, and offers the way back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.code.checkout_homes import WORKER, watcher
from tests.support.slack.code_homes import CodeInSlack, a_code_home_in_slack
from tests.support.slack.slack_home import settled, started

pytestmark = pytest.mark.playground(patience=20)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CodeInSlack]:
    with a_code_home_in_slack(tmp_path, approvals={"required_for": []}, bake_minutes=5) as made:
        yield made


async def test_who_does_not_live_with_it_is_said_on_the_card_with_a_button_back(
    home: CodeInSlack, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    card = await operator.slash("/supervisor rollback 1")
    await card.becomes("OrionMX rolled back")
    await card.becomes("Watching")
    assert home.started_from() == watcher(2)
    (pid,) = home.running_copies(WORKER)
    os.kill(pid, signal.SIGSEGV)  # a crash of its own: a kill is no evidence against the code
    await card.becomes("OrionMX degraded")
    await settled(home)
    assert [action for action, _ in home.actions()] == ["ROLLBACK_CODE"], "nothing was changed back by itself"
    assert (home.top / "watcher.py").read_text() == watcher(2)
    await card.button("Undo").click(as_=operator, confirm=True)
    await slack.channel("ops").shows("OrionMX undone")
    assert home.started_from() == watcher(3)
    await card.button("Undo").is_gone()
