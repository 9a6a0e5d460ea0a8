"""Every id that the configuration names, looked up at a local Slack when the daemon has come up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.access import config_ids as listed
from bot.access.config_ids import find_unknown_ids
from slack_playground import Playground
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config

TEXT = """
workers: {{W: {{command: [x], team: archive}}}}
teams: {{archive: {{operators: [{team}]}}}}
slack:
  channels: [{place}]
  access:
    operators: [{operators}]
    approvers: [{approvers}]
    commands: {{restart: [{restart}]}}
"""


def configured(folder: Path, **ids: str) -> SupervisorConfig:
    given = {"team": "", "place": "", "operators": "", "approvers": "", "restart": "", **ids}
    (folder / "config.yaml").write_text(TEXT.format(**given))
    return load_supervisor_config(folder / "config.yaml", environ={})


async def told(slack: Playground, config: SupervisorConfig) -> list[str]:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    return await find_unknown_ids(client, config, slack.server.world.app.team_id, "supervisor")


async def test_whatever_slack_does_not_know_or_gives_no_rights_is_a_sentence_with_its_settings(
    slack: Playground, tmp_path: Path
) -> None:
    gone = slack.user("gone", deleted=True)
    old = slack.channel("old", members=[slack.user("ann")])
    slack.server.world.set_channel(old.channel, archived=True)
    config = configured(
        tmp_path,
        team=gone.id,
        operators="U0NOBODY",
        approvers=f"S0NOTHING, {old.id}",
        restart="C0NOWHERE",
        place="C0NOPLACE",
    )
    found = await told(slack, config)
    assert len(found) == 6
    every = "\n".join(found)
    for words in (
        f"teams.archive.operators: {gone.id} (Gone) is deactivated",
        "slack.access.operators: U0NOBODY isn't known to Slack",
        "slack.access.approvers: S0NOTHING isn't known to Slack",
        f"slack.access.approvers: {old.id} (#old) is archived and gives no rights",
        "slack.access.commands.restart: C0NOWHERE gives no rights: it doesn't exist, or is private",
        "slack.channels: C0NOPLACE doesn't exist",
    ):
        assert words in every, words


@pytest.mark.parametrize(
    ("kind", "parameters"), [("status", {"status": 503}), ("ratelimited", {"retry_after": 1}), ("drop_before", {})]
)
async def test_a_slack_that_is_away_is_waited_for(
    kind: str, parameters: dict[str, Any], slack: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "FIRST_DELAY_SECONDS", 0.01)
    ann = slack.user("ann")
    slack.fault(kind, "users.info", times=2, **parameters)
    (said,) = await told(slack, configured(tmp_path, operators=f"{ann.id}, U0NOBODY"))
    assert said.startswith("slack.access.operators: U0NOBODY isn't known to Slack. Correct the id, or remove it from")
    assert said.endswith("Copy member ID")


async def test_what_could_not_be_looked_up_in_all_that_time_is_said(
    slack: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "LONGEST_SECONDS", 0.3)
    monkeypatch.setattr(listed, "FIRST_DELAY_SECONDS", 0.01)
    slack.fault("status", "users.info", times=0, status=503)
    (said,) = await told(slack, configured(tmp_path, operators=slack.user("ann").id))
    assert said.startswith("Some ids in the configuration couldn't be looked up (Slack responds with status 503")
