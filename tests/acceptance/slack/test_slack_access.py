"""Who is refused in Slack, by each door: told alone, with nothing done, and written into the audit trail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from slack_playground.testing.people import Person
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError
from tests.support.homes import a_home, demo_command
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started
from tests.support.waiting import wait_until

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
OPS = "C0OPS"

pytestmark = pytest.mark.timeout(240)

ACCESS = {
    "operators": ["U0OPERATOR", "U0GONE", "S0ONCALL", "C0CREW"],
    "approvers": ["U0APPROVER"],
    "commands": {"restart": ["U0RESTARTER"]},
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    workers = {"North": {**WORKER, "team": "archive"}, "South": WORKER}
    teams = {"archive": {"operators": ["U0ARCHIE"]}}
    settings = {"access": ACCESS, "alert_channel": OPS}
    with a_home(tmp_path / "home", workers, make=SlackHome, slack=settings, teams=teams) as made:
        assert isinstance(made, SlackHome)
        yield made


def in_ops(slack: Playground, name: str, **about: object) -> Person:
    """Somebody in #ops, where guests do not get by themselves."""
    person: Person = slack.user(name, **about)
    slack.server.world.join(slack.channel("ops").channel, person.user)
    return person


def refusals(home: SlackHome) -> list[dict[str, Any]]:
    """The denials in the trail, oldest first, with their details."""
    rows = [row for row in home.trail() if row["action"] == "REFUSED"]
    return [{**row, "details": json.loads(row["details_json"])} for row in rows]


def is_told(slack: Playground, who: Person, words: str, times: int) -> bool:
    """Whether they have read these words so often."""
    read: str = slack.channel("ops").conversation(who)
    return read.count(words) == times


async def refused_by_every_door(home: SlackHome, slack: Playground, who: Person, words: str, missing: str) -> None:
    """By slash command, mention, button and with a mistake: told alone; nothing done; a row for each."""
    await slack.user("operator").says("@bot")
    everybodys = await slack.channel("ops").shows("all 2 workers running")
    before = len(refusals(home))
    doors: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("slash command", lambda: who.slash("/supervisor pause North")),
        ("mention", lambda: who.says("@bot pause South")),
        ("button", lambda: everybodys.button("Pause North").click(as_=who, confirm=True)),
        ("mistake", lambda: who.says("@bot psuae")),
    ]
    for told, (door, give) in enumerate(doors, start=1):
        await give()
        await slack.eventually(partial(is_told, slack, who, words, told), f"the answer to the {door} came")
    await settled(home)
    await slack.user("viewer").does_not_see(words)
    rows = refusals(home)[before:]
    assert {row["actor"].rpartition("/")[2] for row in rows} == {who.id}
    assert {row["outcome"] for row in rows} == {"failure"}
    changing = [row["details"] for row in rows if row["details"]["command"] == "pause"]
    assert [each["missing"] for each in changing] == [missing] * 3
    assert not any("<" in each["error"] for each in changing), "what everybody may read mentions nobody"
    assert [row["action"] for row in home.trail() if row["action"] != "REFUSED"] == []
    assert len(home.running_copies("North")) == len(home.running_copies("South")) == 1


async def test_a_guest_is_refused_by_every_door(home: SlackHome, slack: Playground) -> None:
    guest = in_ops(slack, "visitor", is_restricted=True)
    slack.group("oncall", guest)
    await started(home, slack)
    await refused_by_every_door(home, slack, guest, "You are a guest in this workspace", "operators")
    assert len(refusals(home)) == 4, "their mistake, too: what was expected names workers"


async def test_somebody_of_another_workspace_is_refused_by_every_door(home: SlackHome, slack: Playground) -> None:
    stranger = in_ops(slack, "stranger", team_id="T0ELSE")
    slack.channel("crew", members=[stranger])
    await started(home, slack)
    await refused_by_every_door(home, slack, stranger, "You are from another workspace", "operators")
    assert len(refusals(home)) == 4
    assert {row["actor"] for row in refusals(home)} <= {
        f"slack:T0ELSE/{stranger.id}",
        f"slack:T0PLAYGROUND/{stranger.id}",
    }


async def test_somebody_who_was_deactivated_is_refused_though_listed(home: SlackHome, slack: Playground) -> None:
    gone = in_ops(slack, "gone")
    await started(home, slack)
    slack.user("gone", deleted=True)
    await refused_by_every_door(home, slack, gone, "Only people with an active account", "identity")


async def test_somebody_whom_slack_does_not_know_is_refused(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    await operator.says("@bot")
    overview = await slack.channel("ops").shows("all 2 workers running")
    slack.fault("error", "users.info", times=0, error="user_not_found")
    said = "Slack couldn't identify you"
    doors: list[Callable[[], Awaitable[object]]] = [
        lambda: operator.slash("/supervisor pause North"),
        lambda: operator.says("@bot pause South"),
        lambda: overview.button("Pause North").click(as_=operator, confirm=True),
    ]
    for told, give in enumerate(doors, start=1):
        await give()
        await slack.eventually(partial(is_told, slack, operator, said, told), "the next answer came")
    await settled(home)
    await slack.user("viewer").does_not_see("Slack couldn't identify you")
    assert [row["details"]["missing"] for row in refusals(home)] == ["identity"] * 3
    assert len(home.running_copies("North")) == 1


async def test_a_command_in_the_wrong_channel_is_refused_whoever_gives_it(tmp_path: Path, slack: Playground) -> None:
    slack_settings = {"access": ACCESS, "channels": [OPS]}
    with a_slack_home(tmp_path / "home", {"North": WORKER}, **slack_settings) as home:
        await started(home, slack)
        operator = slack.user("operator")
        elsewhere = slack.channel("elsewhere")
        for place in (elsewhere, operator.dm()):
            await operator.slash("/supervisor pause North", in_=place)
            await operator.sees("Commands are accepted only in #ops", in_=place)
        await operator.says("@bot pause North", in_=elsewhere)
        said = "Commands are accepted only"
        await slack.eventually(lambda: elsewhere.conversation(operator).count(said) == 2, "both answers came")
        await settled(home)
        await slack.user("viewer").does_not_see("Commands are accepted only", in_=elsewhere)
        assert [row["details"]["missing"] for row in refusals(home)] == ["channel"] * 3
        assert len(home.running_copies("North")) == 1
        await operator.slash("/supervisor pause North")
        await slack.channel("ops").shows("North paused")


async def test_a_group_gives_rights_only_when_slack_answers_for_it(home: SlackHome, slack: Playground) -> None:
    """Slack refuses to answer, doesn't let the bot ask, and is silent at first."""
    member = slack.user("member")
    slack.group("oncall", member)
    await started(home, slack)
    answers = [
        ("no_such_subteam", "pause is limited to operators", "operators"),
        ("plan_upgrade_required", "pause is limited to operators", "operators"),
        ("missing_scope", "Your rights can't be verified", "identity"),
    ]
    for number, (error, words, missing) in enumerate(answers, start=1):
        slack.server.world.faults.clear()
        slack.fault("error", "usergroups.users.list", times=0, error=error)
        before = slack.channel("ops").conversation(member).count(words)
        await member.slash("/supervisor pause South")
        await slack.eventually(partial(is_told, slack, member, words, before + 1), f"the answer to {error} came")
        await settled(home)
        assert [row["details"]["missing"] for row in refusals(home)][number - 1 :] == [missing]
        assert len(home.running_copies("South")) == 1
    for error in ("no_such_subteam", "plan_upgrade_required"):
        assert f"the user group S0ONCALL gives no rights: {error}" in home.whole_log()
    slack.server.world.faults.clear()
    slack.fault("status", "usergroups.users.list", times=2, status=503)
    await member.slash("/supervisor pause South")
    await slack.channel("ops").shows("South paused")
    assert len(refusals(home)) == len(answers)


async def test_the_members_of_a_channel_may_until_they_leave_it(home: SlackHome, slack: Playground) -> None:
    member = slack.user("member")
    crew = slack.channel("crew", private=True, members=[member])
    assert crew.id == "C0CREW"
    slack.server.world.join(crew.channel, slack.server.world.bot)
    await started(home, slack)
    await member.slash("/supervisor pause South")
    await slack.channel("ops").shows("South paused")
    slack.server.world.leave(crew.channel, member.user)
    await member.slash("/supervisor resume South")
    await member.sees("resume is limited to operators")
    assert len(refusals(home)) == 1
    assert home.running_copies("South") == []


async def test_a_private_channel_that_the_bot_is_not_in_gives_no_rights(home: SlackHome, slack: Playground) -> None:
    member = slack.user("member")
    assert slack.channel("crew", private=True, members=[member]).without_bot().id == "C0CREW"
    await started(home, slack)
    await member.slash("/supervisor pause South")
    await member.sees("pause is limited to operators")
    await settled(home)
    assert len(refusals(home)) == 1
    assert "the channel C0CREW gives no rights: channel_not_found" in home.whole_log()


async def test_who_lacks_a_right_hears_which_and_who_has_it(home: SlackHome, slack: Playground) -> None:
    """A viewer, an operator for a command with a list of its own, and an operator of one team."""
    await started(home, slack)
    slack.patience = 30  # a worker is stopped and started
    operator, restarter, archie = slack.user("operator"), slack.user("restarter"), slack.user("archie")
    viewer = slack.user("viewer")
    await viewer.slash("/supervisor pause South")
    await viewer.sees("pause is limited to operators")
    await viewer.sees("slack.access.operators")
    await operator.does_not_see("pause is limited to operators")

    await operator.slash("/supervisor restart South")
    await operator.sees("restart is limited to")
    await restarter.slash("/supervisor restart South")
    await slack.channel("ops").shows("South restarted")
    await restarter.slash("/supervisor pause South")
    await restarter.sees("pause is limited to operators")

    await archie.slash("/supervisor pause all")
    await archie.sees("on South is limited to operators")
    await settled(home)
    assert len(home.running_copies("North")) == 1
    await archie.slash("/supervisor pause team:archive")
    await slack.channel("ops").shows("North paused")
    assert len(home.running_copies("South")) == 1
    refused = [row["details"] for row in refusals(home)]
    assert [each["missing"] for each in refused[:3]] == ["operators", "commands.restart", "operators"]
    assert refused[0]["error"] == "pause is limited to operators (slack.access.operators)"
    assert refused[3]["error"].endswith("missing for South")
    assert len(refused) == 4


async def test_in_an_organization_the_members_of_the_workspace_have_their_rights(
    home: SlackHome, slack: Playground
) -> None:
    member, ours = in_ops(slack, "member", team_id="T0ELSE"), slack.server.world.app.team_id
    slack.group("oncall", member)

    def place_in(*teams: str) -> None:
        slack.server.world.faults.clear()
        user = member.user.to_slack(email=False) | {"enterprise_user": {"id": member.id, "teams": teams}}
        slack.fault("answer", "users.info", times=0, fields={"user": user})

    place_in("T0ELSE")
    await started(home, slack)
    await refused_by_every_door(home, slack, member, "You are from another workspace", "operators")
    place_in("T0ELSE", ours)
    card = await member.says("@bot pause South")
    await card.shows("South paused")


async def test_an_app_of_a_whole_organization_is_refused_and_the_workers_run_on(
    home: SlackHome, slack: Playground
) -> None:
    home.slack = slack.environment
    slack.fault("answer", "auth.test", times=0, fields={"is_enterprise_install": True})
    await asyncio.to_thread(home.start_daemon, wait=False)

    def reason() -> str:
        with suppress(NotRunningError, UnresponsiveError):
            return home.slack_service()["last_error"] or ""
        return ""

    told = await asyncio.to_thread(wait_until, reason, 20, "the service says why it doesn't connect")
    assert "installed for a whole Enterprise organization" in told
    assert "Create the app in the workspace" in told
    started_too = lambda: len(home.running_copies("North")) == 1  # noqa: E731
    await asyncio.to_thread(wait_until, started_too, 20, "the workers are started all the same")
