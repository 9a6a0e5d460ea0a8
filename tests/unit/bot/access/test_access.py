"""Who may do what: role, command, channel, target, and who is nobody here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from bot.access.rules import AccessRules, Person, may_approve, may_see_all_approvals
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import Right
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.schema import AccessSettings, SlackSettings
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings
from supervisor_core.intake.approvals.rights import RightsUnknown, host_rights

HOME = "T0HOME"

VIEWER = Person("U0VIEW", HOME)
OPERATOR = Person("U0OPER", HOME)
APPROVER = Person("U0APPR", HOME, groups=frozenset({"S0ADMINS"}))
OF_TEAM = Person("U0TEAM", HOME)

RULES = AccessRules(
    slack=SlackSettings(
        access=AccessSettings(viewers=("*",), operators=("U0OPER", "S0OPS", "U0LISTED"), approvers=("S0ADMINS",)),
    ),
    teams={"archive": TeamSettings(operators=("U0TEAM",))},
    workers={
        "OrionMX": WorkerSettings(command=("sleep", "1"), team="archive"),
        "Other": WorkerSettings(command=("sleep", "1")),
    },
    workspace=HOME,
)


def test_approvers_of_one_team_and_those_listed_for_the_command_see_the_requests_of_others() -> None:
    of_team = replace(RULES, teams={"archive": TeamSettings(approvers=("U0TEAM",))})
    assert may_see_all_approvals(OF_TEAM, of_team)
    access = structs.replace(RULES.slack.access, commands={"approvals": ("U0VIEW",)})
    listed = replace(RULES, slack=structs.replace(RULES.slack, access=access))
    assert may_see_all_approvals(VIEWER, listed)
    assert not may_see_all_approvals(APPROVER, listed)


def test_a_vote_counts_in_the_alert_channel_where_what_a_direct_message_asked_for_is_asked() -> None:
    slack = structs.replace(RULES.slack, channels=("C0ONE",), alert_channel="C0ALERTS")
    rules, pause = replace(RULES, slack=slack), Command("pause", workers=("Other",))
    assert may_approve(APPROVER, pause, rules, here="C0ALERTS", card="D0SOMEBODY") is None
    asked_openly = may_approve(APPROVER, pause, rules, here="C0ALERTS", card="C0ONE")
    assert asked_openly is not None
    assert asked_openly.missing == "channel"


@pytest.mark.parametrize(("lists", "word"), [("{rollback: []}", "Nobody is listed"), ("{rollback: [U0ANN]}", "")])
def test_this_host_knows_without_slack_that_nobody_may_where_the_list_of_a_command_is_empty(
    lists: str, word: str, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(
        f"workers: {{W: {{command: [x]}}}}\nslack: {{access: {{operators: [U0OPER], commands: {lists}}}}}\n"
    )
    config = load_supervisor_config(tmp_path / "config.yaml", environ={})
    rights, command = host_rights(lambda: config), Command("rollback", "W", ("W",))
    if word:
        assert word in rights(Issuer("slack:T0HOME/U0OPER", "oper"), command, Right.OPERATOR)
        return
    with pytest.raises(RightsUnknown):
        rights(Issuer("slack:T0HOME/U0ANN", "ann"), command, Right.OPERATOR)
