"""What one person is answered, and the notices of a channel: golden files of each kind.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_answers.py`, then look at the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from bot.access.rules import AccessRules, Person
from bot.requests.commands import Mistakes
from bot.requests.request import Request
from bot.views.answers.help import help_message
from bot.views.answers.refusals import GUEST_VOTES, UNKNOWN, Membership, RequiredRole, elsewhere, inactive, lacking
from bot.views.blocks import blocks_of, text_message, with_hint
from bot.views.cards.notices import (
    connection_gap_notice,
    introduction,
    not_a_member_hint,
    unknown_ids,
    welcome,
)
from bot.views.workers import overview, pressed_button
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.config.load import SupervisorConfig, check_raw, grammar_context
from supervisor_core.config.raw import parse_raw
from tests.support.golden import are_as_last_seen
from tests.unit.bot.views.test_views import worker

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
NONCE = "ab12cd34ef56"
HOSTILE = "<!channel> & <@U0OPER> `rm -rf`\n*bold* https://evil.example"


def config(default: str = "") -> SupervisorConfig:
    """Three workers, two of them in a team."""
    teams = {"OrionMX": "archive", "North": "archive", "South": ""}
    document = {
        "supervisor": {"id": "Host", "default_worker": default},
        "workers": {name: {"command": ["sleep", "1"], "team": team} for name, team in teams.items()},
        "teams": {"archive": {"objective": "keep the archive flowing"}},
        "slack": {"access": {"operators": ["U0OPER"], "approvers": ["U0ADA"]}},
    }
    return check_raw(parse_raw(yaml.safe_dump(document, sort_keys=False), "config.yaml", {}), {})


CONFIG = config()
RULES = AccessRules(CONFIG.slack, CONFIG.teams, CONFIG.workers, "T0HOME")
OPERATOR, VIEWER = Person("U0OPER", "T0HOME"), Person("U0VIEW", "T0HOME")
ASKED = Request("", "U0OPER", "T0HOME", "C0OPS", NOW, "envelope")


def to_mistake(text: str, person: Person | None = OPERATOR, there: SupervisorConfig = CONFIG) -> Mapping[str, Any]:
    """What is answered to these words."""
    with pytest.raises(GrammarError) as caught:
        parse(text, grammar_context(there))
    return Mistakes(there, RULES).answer(ASKED, caught.value, person)


MISTAKES = {
    "no_such_command": "rolback 2",
    "nearly_a_worker": "pause orinmx",
    "nearly_a_worker_of_a_rollback": "rollback orinmx 2 hotfix",
    "which_worker": "restart",
    "bad_number": "rollback OrionMX 11",
    "bad_label": "pause OrionMX because: of <!channel>",
    "nothing_like_it": "make me a coffee",
    "hostile": "<!channel> `rm -rf` *bold*",
}

GAPS = [(NOW + timedelta(minutes=n), NOW + timedelta(minutes=n, seconds=5 + n)) for n in range(3)]
PAUSED = worker("South", state="stopped", paused=True, pid=None, reason="paused by bob since 14:02")
UNWELL = worker("North", health="stale", fine=False, last_error=HOSTILE)
ALL = ("pause", "resume", "restart")

WANTED = RequiredRole(
    "pause", "operators", ("slack.access.operators", "teams.archive.operators"), ("U0ANNA", "S0OPS", "C0OPS")
)
BY_LIST = RequiredRole("undo", "operators", ("slack.access.commands.undo",), ("U0BEN",))
NOBODY = RequiredRole("rollback", "approvers", ("slack.access.approvers",), (), votes=True)

CASES: Mapping[str, Mapping[str, Any]] = {
    "help_of_an_operator": help_message("", list(CATALOG.values())),
    "help_of_a_viewer": help_message("", [CATALOG["help"], CATALOG["status"]]),
    "help_of_rollback": help_message("rollback", []),
    "help_of_monitoring": help_message("monitoring", []),
    "overview": overview("Host", [worker(), UNWELL, PAUSED], dict.fromkeys(["OrionMX", "North", "South"], ALL), NONCE),
    "overview_of_a_viewer": overview("Host", [worker()], {"OrionMX": ()}, NONCE),
    "overview_with_approvals": overview("Host", [worker()], {"OrionMX": ALL}, NONCE, ["pause", "restart"], more=True),
    "overview_of_nothing": overview("Host", [], {}, NONCE),
    "overview_pressed": pressed_button("restart", "OrionMX", NONCE),
    "deaf": connection_gap_notice("Host", GAPS, away=False),
    "welcome": welcome("supervisor", "build-7", "OrionMX"),
    "welcome_without_workers": welcome("super_*visor*", "my_host", ""),
    "introduction": introduction("build-7", "", ()),
    "introduction_elsewhere": introduction("my_host", "C0OPS", ("C0OPS", "C0NIGHT")),
    "was_away": connection_gap_notice("Host", GAPS[:1], away=True),
    "not_a_member": with_hint(text_message("OrionMX: paused"), not_a_member_hint("C0OPS", "supervisor")),
    "unknown_ids": unknown_ids("Host", ["slack.access.operators: U0GONE (Gone) is deactivated, and gets no rights"]),
    "refused_unknown": text_message(UNKNOWN[0]),
    "refused_inactive": text_message(inactive(bot=False)[0]),
    "refused_guest_votes": text_message(GUEST_VOTES[0]),
    "refused_elsewhere": text_message(elsewhere("C0HERE", ["C0OPS", "C0NIGHT"])[0]),
    "refused_vote_elsewhere": text_message(elsewhere("C0HERE", ["C0OPS"], votes=True)[0]),
    "refused_lacking": text_message(lacking(WANTED, (), Membership.FULL, circles=True)[0]),
    "refused_for_some": text_message(lacking(WANTED, ("North", "South"), Membership.FULL, circles=False)[0]),
    "refused_guest": text_message(lacking(WANTED, (), Membership.GUEST, circles=False)[0]),
    "refused_by_list": text_message(lacking(BY_LIST, (), Membership.FULL, circles=False)[0]),
    "refused_nobody_may": text_message(lacking(NOBODY, (), Membership.STRANGER, circles=False)[0]),
    **{f"mistake_{name}": to_mistake(text) for name, text in MISTAKES.items()},
    "mistake_of_a_viewer": to_mistake("pause orinmx", VIEWER),
    "mistake_of_somebody_unknown": to_mistake("restart", None),
}


def buttons(name: str) -> list[str]:
    rows = [block["elements"] for block in blocks_of(CASES[name]) if block["type"] == "actions"]
    return [each["text"]["text"] if "text" in each else each["placeholder"]["text"] for row in rows for each in row]


def test_what_was_nearly_typed_is_offered_to_those_who_may_do_it() -> None:
    assert buttons("mistake_nearly_a_worker") == ["pause OrionMX"]
    assert buttons("mistake_of_a_viewer") == buttons("mistake_of_somebody_unknown") == []
    assert "pause OrionMX" in CASES["mistake_of_a_viewer"]["text"]
    assert buttons("mistake_no_such_command") == [], "it lacks its worker"
    assert "rollback 2" in CASES["mistake_no_such_command"]["text"]
    for text in ("rollback 99", "rollback two", "rollback OrionMX 0", "rollback OrionMX 3x"):
        told = to_mistake(text)
        assert "actions" not in [block["type"] for block in told["blocks"]], "a number is never guessed"
        assert "from 1 to 10" in told["text"]


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("answer", CASES)
