"""An app whose installer left out every optional scope: it works, but for what those scopes are for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot import scopes
from slack_playground import Playground
from slack_playground.testing.people import ChannelView
from tests.support.homes import ROOT
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started


def required_alone() -> dict[str, Any]:
    """Our manifest, without what it calls optional."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "manifest.yml").read_text(encoding="utf-8"))
    document["oauth_config"]["scopes"] = {"bot": sorted(scopes.REQUIRED)}
    return document


pytestmark = [pytest.mark.playground(manifest=required_alone(), patience=20), pytest.mark.timeout(120)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    access = {"operators": ["U0OPERATOR", "S0ONCALL"], "approvers": ["U0APPROVER"]}
    approvals = {"required_for": ["restart"]}
    slack: dict[str, Any] = {"access": access, "approvals": approvals, "alert_channel": "C0SECRET"}
    with a_slack_home(tmp_path / "home", **slack) as made:
        yield made


async def test_without_optional_scopes_commands_approvals_and_alerts_work(home: SlackHome, slack: Playground) -> None:
    operator, approver, member = (slack.user(name) for name in ("operator", "approver", "member"))
    slack.group("oncall", member)
    secret = slack.channel("secret", private=True)
    await started(home, slack)

    card = await operator.says("@supervisor restart hotfix")
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("OrionMX restarted")
    os.kill(home.running_copies("OrionMX")[0], signal.SIGKILL)
    await secret.shows("OrionMX recovered")
    await operator.says("status", in_=operator.dm())
    await operator.sees("OrionMX", in_=operator.dm())

    await member.says("@supervisor pause")
    await member.sees("Your rights can't be verified")
    await operator.says("@supervisor diagnostics")
    await operator.sees("the app lacks the scope files:write")
    await settled(home)


async def test_without_im_write_what_the_bot_can_not_post_elsewhere_comes_directly(
    home: SlackHome, slack: Playground
) -> None:
    operator, viewer = slack.user("operator"), slack.user("viewer")
    slack.channel("secret", private=True)
    await started(home, slack)
    between = ChannelView(slack, slack.server.world.direct([operator.user.id, viewer.user.id]))
    await operator.slash("/supervisor pause hotfix", in_=between)
    await operator.sees("OrionMX paused", in_=operator.dm())
    await settled(home)
