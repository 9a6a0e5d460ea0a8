"""What only informs, as its reader sees it: golden files of each answer, and the longest there can be.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_look_views.py`, then look at the difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.access.rules import Person
from bot.answers import place_in, where, zone_of
from bot.views.answers.alerts import pending_approvals
from bot.views.answers.audit import NEWER, OLDER, AuditQuery, audit_page
from bot.views.answers.logs import fits, logs, logs_file
from bot.views.blocks import Content
from bot.views.buttons import page_number
from bot.views.cards.approval import ApprovalDetails as Waits
from bot.views.files import MOST_BYTES
from bot.views.workers import status, teams
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Terms
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import COLUMNS, DAMAGED
from supervisor_core.storage.audit.files import audit_csv
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, audit_filter
from supervisor_core.storage.audit.trail import TrailEntry
from supervisor_core.workers.teams import TeamMember, TeamPicture
from tests.support.golden import are_as_last_seen

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
NONCE = "0123456789ab"
HOSTILE = "<!channel> *b* `c` <@U0BOB> <https://evil|link> & _d_"
OPERATOR, ANNA, BOB = (
    Issuer("slack:T0TEAM/U0OPER", "Op"),
    Issuer("cli:anna", "anna"),
    Issuer("slack:T0TEAM/U0BOB", "Bob"),
)
LINK = "https://team.slack.com/archives/C0OPS/p1770301800000100"

ENTRY = TrailEntry(
    "Host",
    7,
    NOW,
    "rollback 3",
    "OrionMX",
    OPERATOR,
    "hotfix",
    (BOB,),
    "succeeded",
    True,
    "",
    "task_20260205_143012_ab12",
    "it's broken, see #4711 <!channel>",
)
FAILED = replace(
    ENTRY, audit_id=6, command="pause", asked=ANNA, approved=(), outcome="failed", well=False, error=HOSTILE
)
WAITS = replace(ENTRY, audit_id=5, approved=(), outcome="waiting for approval", well=None, label=HOSTILE, about=HOSTILE)


def audit_command(target: str = "", **params: Any) -> Command:
    return Command("audit", target, (target,) if target else (), {"by": None, "since": None, "limit": 20, **params})


def asking(wanted: AuditFilter | None = None, command: Command | None = None, *, alone: bool = True) -> AuditQuery:
    return AuditQuery("Host", command or audit_command(), wanted or AuditFilter(), NONCE, alone)


def worker(worker_id: str = "OrionMX", **facts: Any) -> dict[str, Any]:
    usual = {"state": "running", "health": "healthy", "reason": "beats", "fine": True, "pid": 7, "paused": False}
    return {"id": worker_id, "last_error": None, **usual, **facts}


ILL = worker("VegaMX", fine=False, health="stale", reason="no beat for 400 s")
LINES = WorkerLog("OrionMX", "/nas/05_LOGS/workers/OrionMX.log", ("started", f"``` {HOSTILE}", "fed"), 4711)
TEAM = TeamPicture(
    "archive",
    "keep the archive flowing",
    (TeamMember("OrionMX", "LEAD"), TeamMember("VegaMX", "MEMBER"), TeamMember("Elsewhere", "TRAINEE")),
    (TeamMember("Gone", "MEMBER", NOW),),
)
FILTERED = AuditFilter(issuer="U0OPERATOR", since=NOW, action="ROLLBACK_CODE", targets=("OrionMX",))
FILTERING = audit_command("OrionMX", by="U0OPERATOR", since="2d", command="rollback")
KNOWN = {each["id"]: each for each in (worker(), ILL)}


def asked_for(number: int, label: str = "hotfix", worker_id: str = "OrionMX", link: str = LINK) -> Waits:
    command = Command("rollback", worker_id, (worker_id,), {"commits_back": 3}, label, OPERATOR, f"task_{number}")
    approval = Approval(
        f"approval_{number}", "Host", command, "slack", None, (), "f" * 64, Terms(OPERATOR.id), ApprovalState.PENDING,
        NOW, NOW + timedelta(minutes=15),
    )  # fmt: skip
    return Waits(approval, link=link)


CASES: Mapping[str, Callable[[], Content]] = {
    "approvals": lambda: pending_approvals([asked_for(1), asked_for(2, HOSTILE, "VegaMX")], NONCE),
    "approvals_none": lambda: pending_approvals([], NONCE),
    "approvals_of_many": lambda: pending_approvals([asked_for(number) for number in range(12)], NONCE, 1),
    "audit": lambda: audit_page(
        asking(), [(ENTRY, LINK), (FAILED, ""), (WAITS, "")], older="older:5:Host"
    ),
    "audit_in_a_thread": lambda: audit_page(
        asking(alone=False), [(ENTRY, LINK), (FAILED, "")], newer="newer:7:Host"
    ),
    "audit_narrowed": lambda: audit_page(asking(FILTERED, FILTERING), [(ENTRY, LINK)]),
    "audit_nothing": lambda: audit_page(asking(), []),
    "audit_nothing_fits": lambda: audit_page(asking(FILTERED, FILTERING), []),
    "audit_nobody": lambda: audit_page(asking(AuditFilter(issuer=HOSTILE), audit_command(by=HOSTILE)), [], nobody=True),
    "logs": lambda: logs([LINES], filed=False),
    "logs_of_several": lambda: logs(
        [LINES, WorkerLog("New", "/x", nothing=True), WorkerLog("Far", "/y", problem="The drive at /nas hangs.")],
        filed=True,
    ),
    "teams": lambda: teams(
        Command("teams"), [TEAM, TeamPicture("empty", "", ())], KNOWN, NONCE
    ),
    "teams_none": lambda: teams(Command("teams"), [], {}, NONCE),
    "status": lambda: status(Command("status", "all"), [worker(), ILL], NONCE, host="Host"),
    "status_of_a_team": lambda: status(Command("status", "team:archive"), [worker(), ILL], NONCE, 0, TEAM, host="Host"),
    "status_of_many": lambda: status(
        Command("status", "all"),
        [worker(f"W{number:03}", fine=number != 60) for number in range(61)],
        NONCE,
        1,
        host="Host",
    ),
}  # fmt: skip


def test_the_longest_lines_fit_and_the_newest_of_them_are_shown() -> None:
    written = WorkerLog("W" * 64, "/p" * 2000, tuple(f"{number} {'&`<' * 600}" for number in range(1000)), 10**9)
    for found in ([written], [written] * 5, [written] * 200):
        made = logs(found, filed=True)
        assert check_message(made, update=True) == []
        assert not fits(found)
        assert "999 &amp;'&lt;" in json.dumps(made)
        assert "999 &amp;'&lt;" in made["text"]
        assert len(logs_file(found).encode()) < MOST_BYTES
        assert "999 &`<" in logs_file(found)
    assert fits([LINES])


@pytest.mark.parametrize("host", ["Host", "a b", "ü:<>", "x" * 64])
def test_a_place_is_one_word_and_is_read_again(host: str) -> None:
    word = where(OLDER, host, 12)
    assert " " not in word
    assert place_in(word) == (RowPosition(host, 12), False)
    assert place_in(where(NEWER, host, 12)) == (RowPosition(host, 12), True)


@pytest.mark.parametrize("word", ["", "older", "older:x:Host", "csv", "older:-1:Host", f"older:{'9' * 40}:H", "\0"])
def test_what_is_no_place_is_the_first_page(word: str) -> None:
    assert place_in(word) == (None, False)
    assert page_number("next:x") == page_number("") == page_number("next:9999999") == 0
    assert page_number("next:3") == 3


def test_a_day_begins_where_the_asker_is() -> None:
    command = audit_command(since="2026-01-31")
    for zone, hours in (("Europe/Berlin", -1), ("America/New_York", 5), ("", 0), ("Mars/Base", 0), ("../etc", 0)):
        person = Person("U0", "T0", zone=zone)
        since = audit_filter(command, NOW, zone_of(person)).since
        assert since == datetime(2026, 1, 31, tzinfo=UTC) + timedelta(hours=hours)
    assert zone_of(None) is UTC
    assert audit_filter(
        audit_command(since="2d"), NOW, zone_of(Person("U0", "T0", zone="Asia/Tokyo"))
    ).since == NOW - timedelta(days=2)


def test_a_table_for_other_programs_has_all_columns_and_no_formula() -> None:
    assert COLUMNS == chain.COLUMNS
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "x") | {"audit_id": 1, "label": None}
    table = audit_csv([row | {"actor": text} for text in ("=cmd()", "+1", "-1", "@x", "\tx", 'a "b", c')])
    lines = table.splitlines()
    assert lines[0] == ",".join((*COLUMNS, "command", DAMAGED))
    assert [line.split(",")[3] for line in lines[1:6]] == ["'=cmd()", "'+1", "'-1", "'@x", "'\tx"]
    assert '"a ""b"", c"' in lines[6]


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("look", CASES)
