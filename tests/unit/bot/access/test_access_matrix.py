"""The whole matrix of access: role, way of being named, command, channel, target and kind of person; and the same of
votes.

What must come out is written down here a second time and in another way: as a table of what each role gives, and as
three sentences about who counts at all. Nothing of it is taken from the code or from the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest

from bot.access.rules import AccessRules, Person, Refusal, may_approve, may_cancel, may_give, may_see, refusal
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import TargetRule
from supervisor_core.commands.targets import GrammarContext, resolve
from supervisor_core.config.schema import AccessSettings, SlackSettings
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings

SAMPLE = 4
"""The commands of a sample: each has twenty thousand cases, and is asked about in the same way."""

HOME, ELSEWHERE = "T0HOME", "T0ELSE"
ME, SOMEBODY = "U0ME", "U0SOMEBODY"
OPS, OTHER, DIRECT, APPROVALS = "C0OPS", "C0OTHER", "D0DIRECT", "C0APPROVALS"

# The workers: two of the team archive, one of the team intake, and one of no team.
TEAMS_OF = {"A1": "archive", "A2": "archive", "I1": "intake", "Z9": ""}
TARGETS = ("A1", "I1", "team:archive", "team:intake", "A*", "?1", "all", "")

# What a role gives: whether its holder may look, and on which of the targets (in their order) they may act and approve.
#                                  look  act         approve
GIVES: dict[str, tuple[bool, str, str]] = {
    "nobody": (False, "........", "........"),
    "viewer": (True, "........", "........"),
    "operator": (True, "yyyyyyyy", "........"),
    "approver": (True, "........", "yyyyyyyy"),
    "operator and approver": (True, "yyyyyyyy", "yyyyyyyy"),
    "operator of archive": (True, "y.y.y...", "........"),
    "approver of archive": (True, "........", "y.y.y..."),
    "operator of both teams": (True, "yyyyyy..", "........"),
    "approver of both teams": (True, "........", "yyyyyy.."),
    "operator of archive, approver of intake": (True, "y.y.y...", ".y.y...."),
}
LISTED = "in the command's own list"
EMPTY = "operator, where the list of the command is empty"
OUTVOTED = {
    EMPTY: "operator",
    "operator, where the command has a list": "operator",
    "operator of archive, where the command has a list": "operator of archive",
    "viewer, where the command has a list": "viewer",
    "approver, where the command has a list": "approver",
}
ROLES = (*GIVES, LISTED, *OUTVOTED)

LOOKING = {"overview", "help", "status", "why", "alerts", "approvals", "teams"}
FOR_ANY_TEAM = {"schedule list", "rolling status"}
"""What only reads and is for no worker: to have the role for one team is enough."""

WAYS = {"own id": ME, "group": "S0GROUP", "channel": "C0MEMBERS", "*": "*"}

FULL = Person(ME, HOME, groups=frozenset({"S0GROUP", "C0MEMBERS"}))
KINDS: dict[str, Person | None] = {
    "full member": FULL,
    "full member, also of other workspaces": replace(FULL, team_id=ELSEWHERE, teams=frozenset({ELSEWHERE, HOME})),
    "full member, whom only the organization places": replace(FULL, team_id="", teams=frozenset({HOME})),
    "guest": replace(FULL, is_guest=True),
    "guest, whom only the organization places": replace(FULL, team_id="", teams=frozenset({HOME}), is_guest=True),
    "of the organization's other workspaces": replace(FULL, team_id="E0ORG", teams=frozenset({ELSEWHERE})),
    "of another workspace": replace(FULL, team_id=ELSEWHERE),
    "stranger, as Slack calls them": replace(FULL, is_stranger=True),
    "guest of another workspace": replace(FULL, team_id=ELSEWHERE, is_guest=True),
    "of no workspace that Slack names": replace(FULL, team_id=""),
    "deactivated": replace(FULL, deleted=True),
    "bot": replace(FULL, is_bot=True),
    "unknown": None,
}
NOBODY = {"deactivated", "bot", "unknown"}

# Where commands are taken, where this one is given, and whether that is right.
PLACES = [
    ((), DIRECT, True),
    ((OTHER, OPS), OPS, True),
    ((OPS,), OTHER, False),
    ((OPS,), DIRECT, False),
    ((OPS,), APPROVALS, False),
]

# Where a vote is cast (None: it was cast before), with commands limited to OPS and the card in OTHER.
VOTED = [(OPS, True), (APPROVALS, True), (OTHER, True), (None, True), (DIRECT, False), ("C0FAR", False), ("", False)]


@dataclass(frozen=True)
class Case:
    """One line of the matrix: somebody, as they are named, and the command that they give."""

    role: str
    way: str
    kind: str
    command: str
    target: str

    @property
    def person(self) -> Person | None:
        return KINDS[self.kind]

    @property
    def asked(self) -> Command:
        return Command(self.command, self.target, WORKERS[self.target])


# The independent statement of the rules


def counts(case: Case) -> bool:
    """Deactivated ones, bots and the unknown never count. Full members count however they are named, all others only by
    their own id."""
    return case.kind not in NOBODY and (case.kind.startswith("full member") or case.way == "own id")


def has_right(case: Case) -> bool:
    if not counts(case):
        return False
    if case.role == LISTED:
        return True
    if case.role in OUTVOTED:
        return False
    look, act, _ = GIVES[case.role]
    if case.command in LOOKING:
        return look
    return "y" in act if case.command in FOR_ANY_TEAM else act[TARGETS.index(case.target)] == "y"


def has_vote(case: Case) -> bool:
    if not counts(case) or "guest" in case.kind or case.role == LISTED:
        return False
    return GIVES[OUTVOTED.get(case.role, case.role)][2][TARGETS.index(case.target)] == "y"


# The same as configurations, and as calls


def rules_for(role: str, way: str, command: str, channels: tuple[str, ...] = ()) -> AccessRules:
    """Everything is somebody else's, but for what this role has in this way."""
    word = WAYS[way]
    named = OUTVOTED.get(role, role)

    def those(*names: str) -> tuple[str, ...]:
        mine = any(name in named.split(" and ") or name in named.split(", ") for name in names)
        return (SOMEBODY, word) if mine else (SOMEBODY,)

    own: dict[str, tuple[str, ...]] = {"mute" if command == "pause" else "pause": ()}
    if role == LISTED:
        own = {command: (SOMEBODY, word)}
    elif role in OUTVOTED:
        own = {command: () if role == EMPTY else (SOMEBODY,)}
    access = AccessSettings(
        viewers=those("viewer"),
        operators=those("operator"),
        approvers=those("approver"),
        commands=own,
    )
    archive = TeamSettings(
        operators=those("operator of archive", "operator of both teams"),
        approvers=those("approver of archive", "approver of both teams"),
    )
    intake = TeamSettings(
        operators=those("operator of both teams"), approvers=those("approver of intake", "approver of both teams")
    )
    slack = SlackSettings(access=access, channels=channels, approval_channel=APPROVALS)
    return AccessRules(slack, {"archive": archive, "intake": intake}, CONFIGURED, HOME)


CONFIGURED = {name: WorkerSettings(command=("sleep", "1"), team=team) for name, team in TEAMS_OF.items()}
CONTEXT = GrammarContext(tuple(TEAMS_OF), {"archive": ("A1", "A2"), "intake": ("I1",)})
WORKERS = {target: resolve(target, CONTEXT) or () for target in TARGETS}


def cases(command: str) -> Iterator[Case]:
    targets = ("",) if CATALOG[command].target is TargetRule.NONE else TARGETS
    for role, way, kind, target in product(ROLES, WAYS, KINDS, targets):
        yield Case(role, way, kind, command, target)


def is_kind(refused: Refusal) -> bool:
    """It says something, to them and plainly, and what everybody may read can neither mention nor link."""
    return bool(refused.missing and refused.words and refused.plain) and not set("<>&") & set(refused.plain)


def test_the_targets_mean_what_the_table_takes_them_for() -> None:
    meant = {"A1": "A1", "I1": "I1", "team:archive": "A1 A2", "team:intake": "I1", "A*": "A1 A2", "?1": "A1 I1"}
    assert {**{target: tuple(words.split()) for target, words in meant.items()}, "all": tuple(TEAMS_OF), "": ()} == (
        WORKERS
    )


@pytest.mark.sampled(SAMPLE)
@pytest.mark.parametrize("command", sorted(CATALOG))
def test_a_command_is_for_those_who_have_its_right_in_the_right_place(command: str) -> None:
    seen = 0
    for case in cases(command):
        has = has_right(case)
        for channels, channel, right_place in PLACES:
            rules = cached(case.role, case.way, command, channels)
            refused = refusal(case.person, CATALOG[command], case.asked, channel, rules)
            assert (refused is None) == (has and right_place), (case, channel, refused)
            assert refused is None or is_kind(refused), case
            seen += 1
    assert seen >= len(ROLES) * len(WAYS) * len(KINDS) * len(PLACES)


@pytest.mark.sampled(SAMPLE)
@pytest.mark.parametrize("command", sorted(CATALOG))
def test_what_is_carried_out_later_is_judged_by_the_same_right_wherever_it_was_given(command: str) -> None:
    for case in cases(command):
        rules = cached(case.role, case.way, command, (OPS,))
        assert (may_give(case.person, case.asked, rules) is None) == has_right(case), case


@pytest.mark.sampled(SAMPLE)
@pytest.mark.parametrize("command", sorted(CATALOG))
def test_help_shows_a_command_to_those_who_may_give_it_for_any_worker(command: str) -> None:
    found: dict[tuple[str, str, str], bool] = {}
    for case in cases(command):
        known = found.get((case.role, case.way, case.kind), False)
        single = case.target in ("A1", "I1", "")
        found[case.role, case.way, case.kind] = known or (single and has_right(case))
    for (role, way, kind), expected in found.items():
        rules = cached(role, way, command, ())
        assert may_see(KINDS[kind], CATALOG[command], rules) == expected, (role, way, kind)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", ["rollback", "undo", "pause", "status", "approvals"])
def test_a_vote_is_for_approvers_of_every_worker_and_never_for_guests(command: str) -> None:
    for case in cases(command):
        rules = cached(case.role, case.way, command, (OPS,))
        has = has_vote(case)
        for here, right_place in VOTED:
            refused = may_approve(case.person, case.asked, rules, here=here, card=OTHER)
            assert (refused is None) == (has and right_place), (case, here, refused)
            assert refused is None or is_kind(refused), case
        unlimited = cached(case.role, case.way, command, ())
        for here in (OPS, DIRECT, "C0FAR", None):
            assert (may_approve(case.person, case.asked, unlimited, here=here) is None) == has, (case, here)


@pytest.mark.parametrize("command", ["rollback", "pause"])
def test_an_approval_is_cancelled_by_who_asked_for_it_or_by_an_approver(command: str) -> None:
    for case in cases(command):
        rules = cached(case.role, case.way, command, (OPS,))
        mine = may_cancel(case.person, case.asked, rules, own=True)
        assert (mine is None) == (case.kind not in NOBODY), case
        another_s = may_cancel(case.person, case.asked, rules, own=False, here=OPS)
        assert (another_s is None) == has_vote(case), case


@pytest.mark.sampled(SAMPLE)
@pytest.mark.parametrize("command", sorted(CATALOG))
def test_groups_and_channels_are_asked_about_where_they_would_help_and_nowhere_else(command: str) -> None:
    """What is not known yet is said with the refusal; a guest, a stranger and nobody are never helped by a group."""
    for case in cases(command):
        if case.way == "*" or case.person is None:
            continue
        rules = cached(case.role, case.way, command, ())
        bare = replace(case.person, groups=frozenset())
        for refused, right in (
            (may_give(bare, case.asked, rules), has_right(case)),
            (may_approve(bare, case.asked, rules), has_vote(case)),
        ):
            named = case.way != "own id"
            if right and named:
                assert refused is not None, case
                assert refused.circles == {WAYS[case.way]}, case
            if not case.kind.startswith("full member"):
                assert refused is None or not refused.circles, case


def test_an_empty_configuration_lets_full_members_look_and_nobody_do_anything() -> None:
    rules = AccessRules(SlackSettings(), {"archive": TeamSettings()}, CONFIGURED, HOME)
    for (kind, person), command in product(KINDS.items(), CATALOG):
        expected = kind.startswith("full member") and command in LOOKING
        assert (may_give(person, Command(command, "A1", ("A1",)), rules) is None) == expected, (kind, command)
        assert may_approve(person, Command(command, "A1", ("A1",)), rules) is not None


def test_a_worker_that_is_not_configured_any_more_is_for_the_general_roles_alone() -> None:
    gone = Command("rollback", "Gone", ("Gone",))
    for role in ("operator of archive", "operator of both teams", "approver of both teams"):
        assert may_give(FULL, gone, rules_for(role, "own id", "rollback")) is not None
        assert may_approve(FULL, gone, rules_for(role, "own id", "rollback")) is not None
    assert may_give(FULL, gone, rules_for("operator", "own id", "rollback")) is None
    assert may_approve(FULL, gone, rules_for("approver", "own id", "rollback")) is None


_RULES: dict[tuple[str, str, str, tuple[str, ...]], AccessRules] = {}


def cached(role: str, way: str, command: str, channels: tuple[str, ...]) -> AccessRules:
    """Each configuration is made once."""
    key = (role, way, command, channels)
    if key not in _RULES:
        _RULES[key] = rules_for(*key)
    return _RULES[key]
