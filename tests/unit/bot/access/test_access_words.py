"""What a refusal says: which right is missing, for which worker, who has it, who can give it; and who may read it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bot.access.rules import AccessRules, Person, Refusal, may_approve, may_cancel, may_give, refusal
from bot.views.blocks import LONGEST, text_message
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.config.slack_settings import AccessSettings, SlackSettings
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings

HOME = "T0HOME"
ME = Person("U0ME", HOME)
GUEST = replace(ME, is_guest=True)
STRANGER = replace(ME, team_id="T0ELSE")

SLACK = SlackSettings(
    access=AccessSettings(
        operators=("U0ANNA", "S0OPS", "C0OPS", "G0OPS"),
        approvers=("S0ADMINS",),
        commands={"undo": ("U0BEN",), "mute": ()},
    )
)
TEAMS = {"archive": TeamSettings(operators=("U0ME", "U0ARCHIE")), "intake": TeamSettings(operators=("U0INGA",))}
WORKERS = {
    name: WorkerSettings(command=("sleep", "1"), team=team)
    for name, team in {"North": "archive", "South": "archive", "East": "intake", "West": ""}.items()
}
RULES = AccessRules(SLACK, TEAMS, WORKERS, HOME)


def refused(person: Person | None, name: str, *workers: str, rules: AccessRules = RULES) -> Refusal:
    found = may_give(person, Command(name, workers=workers), rules)
    assert found is not None
    return found


def test_it_names_people_groups_and_channels_and_the_keys_that_give_the_right() -> None:
    told = refused(ME, "pause", "East")
    assert told.words == (
        "`pause` is limited to operators: <@U0ANNA>, <!subteam^S0OPS>, members of <#C0OPS>, members of "
        "<#G0OPS> and <@U0INGA>. An administrator of the supervisor can add you to `slack.access.operators` or "
        "`teams.intake.operators` in the configuration. Members of the groups or channels listed there can use it too."
    )
    assert told.plain == "pause is limited to operators (slack.access.operators or teams.intake.operators)"
    assert (told.missing, told.circles) == ("operators", frozenset({"S0OPS", "C0OPS", "G0OPS"}))


def test_of_several_workers_it_names_those_that_are_not_covered() -> None:
    told = refused(ME, "pause", "North", "East", "South", "West")
    assert "on *East* and *West* is limited to operators: " in told.words
    assert "Nothing was done for the other workers either." in told.words
    assert "<@U0INGA>" in told.words
    assert "<@U0ARCHIE>" not in told.words
    assert told.plain.endswith("; missing for East and West")


def test_where_no_worker_is_covered_none_is_named() -> None:
    assert "East" not in refused(ME, "pause", "East", "West").words


def test_a_list_of_the_command_s_own_is_said_to_be_one() -> None:
    told = refused(ME, "undo", "North")
    assert told.words.startswith("`undo` is limited to <@U0BEN>.")
    assert "to `slack.access.commands.undo` in" in told.words
    assert told.missing == "commands.undo"
    assert "nobody yet" in refused(ME, "mute", "North").words


def test_a_vote_is_told_from_the_command() -> None:
    found = may_approve(ME, Command("undo", workers=("East",)), RULES)
    assert found is not None
    assert found.words.startswith("Approving `undo` is limited to approvers: <!subteam^S0ADMINS>.")
    assert found.plain.startswith("approving undo is limited to approvers (slack.access.approvers")


def test_cancelling_is_told_from_a_vote() -> None:
    found = may_cancel(ME, Command("undo", workers=("East",)), RULES, own=False)
    assert found is not None
    assert found.words.startswith("Canceling another person's `undo` is limited to approvers: <!subteam^S0ADMINS>.")
    assert found.plain.startswith("canceling another person's undo is limited to approvers (slack.access.approvers")


@pytest.mark.parametrize(
    ("person", "said"), [(GUEST, "You are a guest in this workspace"), (STRANGER, "You are from another workspace")]
)
def test_guests_and_strangers_hear_that_only_their_own_id_counts(person: Person, said: str) -> None:
    told = refused(person, "pause", "East")
    assert f"{said}, so you have to be listed by your own user id." in told.words
    assert "groups or channels" not in told.words
    assert not told.circles


def test_a_guest_who_votes_is_not_told_to_be_listed() -> None:
    found = may_approve(replace(GUEST, id="U0LISTED"), Command("undo", workers=("East",)), RULES)
    assert found is not None
    assert "Guests can't approve" in found.words
    assert "can add you" not in found.words


def test_the_wrong_place_names_the_right_ones_and_who_can_add_this_one() -> None:
    slack = SLACK.model_copy(update={"channels": ("C0ONE", "C0TWO"), "approval_channel": "C0APPROVALS"})
    rules = replace(RULES, slack=slack)
    told = refusal(ME, CATALOG["status"], None, "D0ME", rules)
    assert told is not None
    assert told.words == (
        "Commands are accepted only in <#C0ONE> and <#C0TWO>. An administrator of the supervisor can add "
        "this channel to `slack.channels` in the configuration."
    )
    assert told.plain == "commands aren't accepted in D0ME (slack.channels)"
    voted = may_approve(ME, Command("undo", workers=("East",)), rules, here="D0ME", card="C0CARD")
    assert voted is not None
    assert "<#C0ONE>, <#C0TWO> and <#C0APPROVALS> or where the command was posted" in voted.words


def many(letter: str, count: int = 500) -> tuple[str, ...]:
    return tuple(f"{letter}{number:060}" for number in range(count))


def crowded() -> AccessRules:
    """As much of everything as anybody could configure, and with the longest names."""
    everybody = many("U")
    names = [f"{number:03}{'n' * 61}" for number in range(500)]
    slack = SlackSettings(
        access=AccessSettings(
            viewers=everybody, operators=everybody, approvers=everybody, commands={"undo": everybody}
        ),
        channels=many("C"),
    )
    teams = {f"t{name[:63]}": TeamSettings(operators=many("S", 20), approvers=many("G", 20)) for name in names}
    workers = {
        f"w{name[:63]}": WorkerSettings(command=("x",), team=team) for name, team in zip(names, teams, strict=True)
    }
    return AccessRules(slack, teams, {**workers, "Mine": WorkerSettings(command=("x",), team="mine")}, HOME)


def test_with_five_hundred_of_everything_it_fits_and_counts_the_rest() -> None:
    rules = crowded()
    mine = replace(rules, teams={**rules.teams, "mine": TeamSettings(operators=("U0ME",), approvers=("U0ME",))})
    every = Command("rollback", "all", tuple(mine.workers))
    asked = [
        may_give(ME, every, mine),
        may_give(ME, Command("undo", "all", tuple(mine.workers)), mine),
        may_approve(ME, every, mine),
        may_approve(replace(ME, is_guest=False, team_id="T0ELSE", id="U0"), every, mine),
        may_approve(ME, every, mine, here="C0FAR"),
        refusal(
            replace(GUEST, id="U0"),
            CATALOG["status"],
            Command("status", "all", tuple(mine.workers)),
            many("C")[0],
            mine,
        ),
        refusal(ME, CATALOG["status"], None, "C0FAR", mine),
    ]
    for each in asked:
        assert each is not None
        assert len(f":no_entry: {each.words}") < LONGEST, "nothing of it is cut by the message"
        assert check_message(text_message(f":no_entry: {each.words}")) == []
        assert len(each.plain) < LONGEST
    assert asked[1] is not None
    assert " and 497 more" in asked[1].words
    assert asked[0] is not None
    assert re.search(r"on \*\w+\*, \*\w+\*, \*\w+\* and 497 more", asked[0].words)


def test_what_everybody_may_read_mentions_nobody() -> None:
    for person in (ME, GUEST, STRANGER, None, replace(ME, deleted=True), replace(ME, is_bot=True)):
        for name in CATALOG:
            for workers in ((), ("East",), ("North", "East")):
                for found in (
                    may_give(person, Command(name, workers=workers), RULES),
                    may_approve(person, Command(name, workers=workers), RULES),
                ):
                    assert found is None or not re.search(r"[<>&`*]", found.plain), found


def test_a_vote_counts_in_the_alert_channel_where_what_a_direct_message_asked_for_is_asked() -> None:
    slack = SLACK.model_copy(update={"channels": ("C0ONE",), "alert_channel": "C0ALERTS"})
    rules, undo = replace(RULES, slack=slack), Command("undo", workers=("East",))
    asked_alone = may_approve(ME, undo, rules, here="C0ALERTS", card="D0SOMEBODY")
    assert asked_alone is None or asked_alone.missing != "channel"
    asked_openly = may_approve(ME, undo, rules, here="C0ALERTS", card="C0ONE")
    assert asked_openly is not None
    assert asked_openly.missing == "channel"
