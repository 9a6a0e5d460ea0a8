"""What a refusal says: which right is missing, for which worker, who has it, who can give it; and who may read it."""

from __future__ import annotations

import re
from dataclasses import replace

from bot.access.rules import AccessRules, Person, Refusal, may_approve, may_give, refusal
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
