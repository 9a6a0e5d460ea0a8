"""Whatever people, programs, commits and files are called and say: each message is one that Slack takes, nobody is
pinged by it who is not concerned, and nothing in it leads anywhere but where we meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.requests.request import Request
from bot.views.answers import audit
from bot.views.answers.alerts import pending_approvals
from bot.views.answers.help import mistake, target_menu
from bot.views.answers.logs import logs
from bot.views.answers.refusals import Membership, RequiredRole, elsewhere, lacking
from bot.views.blocks import code_message, text_message, with_hint
from bot.views.cards.approval import ApprovalDetails, approval_card, denial_form
from bot.views.cards.card import command_card
from bot.views.cards.next_steps import CardContext, UndoState
from bot.views.cards.notices import connection_gap_notice, unknown_ids
from bot.views.workers import overview, status, teams
from slack_playground.blockkit.messages import check_message
from slack_playground.blockkit.views import check_view
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.intake.approvals.rules import ApprovalState, Choice, Vote
from supervisor_core.jobs.model import Job, JobState, Progress
from supervisor_core.storage.audit.search import AuditFilter
from supervisor_core.storage.audit.trail import TrailEntry
from supervisor_core.workers.teams import TeamMember, TeamPicture
from tests.support.intake.approval_states import LINK, NOW, TASK, approval
from tests.support.sampling import examples
from tests.unit.bot.test_slack_models import differences, reread
from tests.unit.bot.views.test_views import worker

PEOPLE = ("U0OPER", "U0ADA")
GROUPS, CHANNELS = ("S0OPS",), ("C0OPS",)

KNOWN = re.compile(
    rf"<(@({'|'.join(PEOPLE)})|!subteam\^({'|'.join(GROUPS)})|#({'|'.join(CHANNELS)})"
    r"|!date\^[0-9]+\^(\{(date_short_pretty|date_short|time|time_secs|ago)\} ?)+\|[-0-9: ]+(UTC)?"
    rf"|{re.escape(LINK)}\|[^<>|]+)>"
)
"""All that may be alive in a message: those whom it names itself, moments, and the address of a message of ours."""

NASTY = (
    "<!channel>",
    "<!here|x> <!everyone>",
    "<@U1> <@U0EVIL|anna> <#C1> <!subteam^S1>",
    "<https://evil.example|a report>",
    "https://evil.example mailto:a@b.example",
    "&lt;!channel&gt; &amp;lt;",
    "`` ` ``` ```` ",
    "*_~bold~_* > quote\n> more\n• list",
    "\u202e\u200b\u200d\ufeff\u2066 e\u0301",
    "👩\u200d👩\u200d👧\u200d👧",
    "\0\x1b[2J\x07\r\n\t\x85\u2028",
    "<",
    "&",
    "x",
    "word ",
    "\n",
    "<!date^0^{date}|y",
)

LONG = 10_000  # characters


nasty = st.tuples(st.sampled_from(NASTY), st.sampled_from([1, LONG])).map(lambda drawn: (drawn[0] * drawn[1])[:LONG])
text = st.text(max_size=300) | nasty | st.tuples(st.text(max_size=20), nasty).map("".join)
name = st.sampled_from(["OrionMX", "W" * 64, "a.b-c", "7x"])
label = st.none() | st.sampled_from(["hotfix", "l" * 100])
issuer = (
    st.sampled_from([Issuer(f"slack:T0/{each}", "x") for each in PEOPLE])
    | st.builds(Issuer, st.tuples(st.sampled_from(["cli:", "file:", "", "schedule:"]), text).map("".join), text)
    | st.sampled_from([Issuer(f"slack:T0/{each}", each) for each in (*NASTY, "", "é", "0", "channel", "here")])
)
state_of_it = st.sampled_from(ApprovalState)


def repeated(one: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[list[Any]]:
    """As many as there may be, all of them as bad as one: that is drawn quickly, and is what fills a message."""
    return st.tuples(one, st.integers(0, most)).map(lambda drawn: [drawn[0]] * drawn[1])


def commit() -> st.SearchStrategy[dict[str, Any]]:
    hashed = st.sampled_from(["a" * 40, ""])
    return st.fixed_dictionaries({"hash": hashed, "subject": text, "author": text, "merge": st.booleans()})


def file() -> st.SearchStrategy[dict[str, Any]]:
    changed = st.sampled_from(["added", "changed", "deleted", "renamed"])
    return st.fixed_dictionaries({"change": changed, "path": text, "was": st.none() | text})


def preview() -> st.SearchStrategy[dict[str, Any]]:
    maybe = st.none() | text
    found = st.fixed_dictionaries(
        {"id": name, "pid": st.none() | st.just(4711), "paused": st.booleans(), "rests": maybe, "busy": maybe}
    )
    commits, texts = repeated(commit(), 8), repeated(text, 8)
    return st.fixed_dictionaries(
        {
            "command": st.sampled_from(["rollback", "update", "undo"]),
            "checkout": maybe,
            "branch": text,
            "ok": st.booleans(),
            "refused": maybe,
            "conflict": maybe,
            "untried": maybe,
            "workers": repeated(found, 8).filter(len),
            "head": st.none() | commit(),
            "target": st.just("9" * 40),
            "commits": commits,
            "commit_count": st.sampled_from([0, 1, 8, 7000]),
            "skipped": commits,
            "kept": commits,
            "dropped": commits,
            "changes": texts,
            "files": repeated(file(), 9),
            "file_count": st.sampled_from([0, 1, 9, 300]),
            "installs": texts,
            "notes": texts,
        }
    )


@st.composite
def asked_about(draw: st.DrawFn) -> ApprovalDetails:
    """An approval of anything, with votes by anybody."""
    workers = tuple(draw(st.lists(name, min_size=1, max_size=9)))
    params: dict[str, Any] = draw(st.sampled_from([{"commits_back": 2}, {}, {"task_id": "t" * 64}]))
    command = Command(
        "undo" if "task_id" in params else "rollback", "all", workers, params, draw(label), draw(issuer), TASK
    )
    found = approval(draw(state_of_it), command, draw(repeated(preview(), 5).filter(len)), reason=draw(text))
    votes = st.builds(Vote, issuer, st.sampled_from(Choice), st.just(NOW), text)
    places = draw(st.sampled_from([("", ""), ("C0OPS", ""), ("C0OPS", LINK), ("", LINK)]))
    return ApprovalDetails(found, draw(repeated(votes, 25)), *places)


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    """The jobs of one command, for any number of workers."""
    handler = draw(st.sampled_from(["pause", "restart_watcher", "diagnostics", "update_code", "rollback_code"]))
    by, said = draw(issuer), draw(label)
    made = []
    for number in range(draw(st.integers(1, 3))):
        state = draw(st.sampled_from([JobState.DONE, JobState.INTERRUPTED, JobState.STARTED, JobState.QUEUED]))
        details = {
            "message": draw(text),
            "drive": draw(st.none() | text),
            "report_path": draw(st.none() | text),
            "notes": draw(repeated(text, 3)),
            "before": "a" * 40,
            "after": draw(st.sampled_from(["a" * 40, "b" * 40])),
            "commits": draw(repeated(commit(), 8)),
            "files": draw(repeated(file(), 8)),
            "file_count": draw(st.sampled_from([0, 300])),
        }
        ended = state in (JobState.DONE, JobState.INTERRUPTED)
        failed = draw(st.booleans()) or state is JobState.INTERRUPTED
        outcome = Outcome.failed(draw(text), **details) if failed else Outcome.done(**details)
        steps = tuple(Progress(NOW, each) for each in draw(repeated(text, 3)))
        made.append(
            Job(
                number, "Host", TASK, f"W{number}", handler, {}, said, by, "slack", state,
                NOW - timedelta(seconds=3), (), outcome if ended else None, NOW if ended else None, steps,
            )
        )  # fmt: skip
    alike = made * draw(st.sampled_from([1, 8]))
    return [replace(each, worker_id=f"W{number}") for number, each in enumerate(alike)]


def alive(content: Mapping[str, Any]) -> Iterator[str]:
    """What is marked up in all that Slack reads as mrkdwn, and is none of what may be."""
    for each in mrkdwn(content):
        yield from re.findall(r"<.*", KNOWN.sub("", each))


def mrkdwn(content: object) -> Iterator[str]:
    if isinstance(content, Mapping):
        if content.get("type") == "mrkdwn":
            assert content.get("verbatim") is True  # else Slack itself makes links of what looks like one
            yield str(content["text"])
        if isinstance(content.get("text"), str) and "blocks" in content:
            yield content["text"]
        for value in content.values():
            yield from mrkdwn(value)
    elif isinstance(content, list):
        for value in content:
            yield from mrkdwn(value)


def is_harmless(content: Mapping[str, Any]) -> None:
    assert check_message(content, update=True) == []
    assert list(differences(content, reread("message", content))) == []
    assert list(alive(content)) == []


@settings(max_examples=examples(100))
@given(asked_about(), issuer)
def test_a_card_that_waits_for_people(asking: ApprovalDetails, clicker: Issuer) -> None:
    is_harmless(approval_card(asking))
    is_harmless(approval_card(asking, asks=True))
    is_harmless(pending_approvals([asking], "n1"))
    asked = Request("", clicker.id, "T0", "C0OPS", NOW, "envelope", response_url="https://hooks.example/" + "x" * 100)
    view = denial_form(asking.approval, asked)
    assert check_view(view) == []
    assert list(differences(view, reread("view", view))) == []
    assert list(alive(view)) == []


@settings(max_examples=examples(100))
@given(jobs(), st.none() | asked_about(), repeated(st.tuples(st.sampled_from(BakeState), text), 15), st.booleans())
def test_a_card_of_a_command(
    found: list[Job], asking: ApprovalDetails | None, bakes: Sequence[tuple[BakeState, str]], undone: bool
) -> None:
    watched = [
        Bake(TASK, f"W{n}", "Host", f"W{n}", NOW, NOW, state, NOW, reason) for n, (state, reason) in enumerate(bakes)
    ]
    tries = {job.worker_id: UndoState(1, job if undone else None) for job in found}
    is_harmless(command_card(found, NOW, CardContext(asking, tries, watched, asks={"undo", "update"})))


@given(repeated(st.tuples(text, st.none() | text, st.booleans(), st.booleans()), 20), text)
def test_the_overview(workers: Sequence[tuple[str, str | None, bool, bool]], host: str) -> None:
    shown = [
        worker(f"W{n}", reason=reason, last_error=error, fine=fine, paused=paused)
        for n, (reason, error, fine, paused) in enumerate(workers)
    ]
    is_harmless(overview(host, shown, {each["id"]: ("pause", "restart") for each in shown}, "nonce", more=True))


@given(text, text, st.lists(name, min_size=1, max_size=100, unique=True), label)
def test_an_answer_to_a_mistake(said: str, meant: str, targets: Sequence[str], why: str | None) -> None:
    command = Command("pause", targets[0], (targets[0],), {}, why)
    is_harmless(mistake(said, "nonce", meant, command, target_menu("block", command, targets, asks=True), asks=True))


@given(st.sets(st.sampled_from([*PEOPLE, *GROUPS, *CHANNELS, "*"])), repeated(text, 30), st.sampled_from(Membership))
def test_a_refusal(told: set[str], only: Sequence[str], kind: Membership) -> None:
    keys = ("slack.access.operators", "teams.archive.operators")
    for command in ("pause", "<!channel>"):
        is_harmless(
            text_message(lacking(RequiredRole(command, "operators", keys, sorted(told)), only, kind, circles=True)[0])
        )
    is_harmless(text_message(elsewhere("C0OPS", CHANNELS)[0]))


@given(text, text, repeated(text, 20))
def test_a_notice(host: str, reason: str, troubles: Sequence[str]) -> None:
    for content in (
        connection_gap_notice(host, [(NOW, NOW + timedelta(minutes=n)) for n in range(40)], away=False),
        unknown_ids(host, troubles),
        code_message(f"{host}\n{reason}"),
        with_hint(text_message("Well."), "small print"),
    ):
        is_harmless(content)


@settings(max_examples=examples(100))
@given(text, issuer, repeated(issuer, 4), st.sampled_from([True, False, None]), st.booleans())
def test_a_page_of_the_audit_trail(
    said: str, by: Issuer, approved: Sequence[Issuer], well: bool | None, alone: bool
) -> None:
    entry = TrailEntry("Host", 7, NOW, said, said, by, said, tuple(approved), said, well, said, said)
    command = Command("audit", "team:x", ("W",), {"by": said, "since": "2d", "limit": 20, "command": said})
    wanted = AuditFilter(issuer=said, since=NOW, targets=("W",))
    asking = audit.AuditQuery(said, command, wanted, "nonce", alone)
    is_harmless(audit.audit_page(asking, [(entry, LINK)] * 10, newer="newer:1:H", older="older:1:H"))
    is_harmless(audit.audit_page(asking, [], nobody=True))


@given(repeated(text, 20), text)
def test_what_workers_wrote(lines: Sequence[str], said: str) -> None:
    found = [
        WorkerLog("W", said, tuple(lines), 1),
        WorkerLog("V", said, problem=said),
        WorkerLog("U", said, nothing=True),
    ]
    is_harmless(logs(found, filed=True))


@given(text, text)
def test_a_team_and_how_its_workers_are(said: str, reason: str) -> None:
    members = (TeamMember("A", "LEAD"), TeamMember("B", "MEMBER"), TeamMember(said, said))
    team = TeamPicture(said, said, members, (TeamMember(said, said, NOW),))
    known = {each: worker(each, reason=reason, last_error=said, fine=each == "A") for each in ("A", "B")}
    is_harmless(teams(Command("teams"), [team] * 9, known, "nonce"))
    is_harmless(status(Command("status", "team:x"), [*known.values()] * 20, "nonce", 0, team, host="Host"))
