"""Pictures of a host for App Home: with so many workers, for somebody of each role, and with the worst data there can
be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.views.cards.approval import ApprovalDetails
from bot.views.home import HomeData, HomeReader, OpenAlert
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import Right
from supervisor_core.common.times import to_text
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Terms
from supervisor_core.jobs.model import CommandSummary

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
COMMIT = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"
ANNA, OLGA = Issuer("slack:T0TEAM/U0ANNA", "anna"), Issuer("slack:T0TEAM/U0OLGA", "olga")
TEAMS = {"archive": "keep the archive flowing", "crawl": "", "ingest": "nothing waits longer than an hour"}

SEES = [name for name, each in CATALOG.items() if each.right is Right.VIEWER and name not in ("overview", "help")]
DOES = [name for name, each in CATALOG.items() if name not in ("overview", "help", "approvals")]
READERS: Mapping[str, HomeReader] = {
    "viewer": HomeReader(SEES, lambda name, _: name in SEES),
    "operator": HomeReader(DOES, lambda name, _: name in DOES),
    "approver": HomeReader([*SEES, "approvals"], lambda name, _: name in SEES),
}


def worker(worker_id: str, team: str = "", **facts: Any) -> dict[str, Any]:
    usual = {"state": "running", "health": "healthy", "reason": "its last heartbeat is 4 s old", "fine": True}
    usual |= {"pid": 4711, "paused": False, "last_error": None, "started_at": to_text(NOW - timedelta(hours=5))}
    return {"id": worker_id, "team": team, **usual, **facts}


def workers(count: int) -> list[dict[str, Any]]:
    """So many, in three teams and in none; every ninth is ill, in another way each time, every eleventh rests."""
    ills = (
        {"health": "stale", "reason": "its last heartbeat is 412 s old, and 300 s are allowed"},
        {"state": "stopped", "health": "missing", "reason": "crashed (SIGKILL)", "pid": None},
        {"state": "quarantined", "health": "missing", "reason": "5 starts within an hour did not last", "pid": None},
        {"health": "degraded", "reason": "it says: the share is read-only"},
    )
    rests = {"state": "stopped", "health": "unknown", "paused": True, "pid": None, "reason": "paused by anna for 2 h"}
    names = [*TEAMS, ""]
    made = []
    for number in range(count):
        facts: dict[str, Any] = {}
        if number % 9 == 4:
            facts = {**ills[number // 9 % len(ills)], "fine": False}
        elif number % 11 == 6:
            facts = rests
        made.append(worker(f"Worker-{number:03}", names[number * 7 % 20 // 6], **facts))
    return made


def asking(number: int = 1, target: str = "Worker-004", **about: Any) -> ApprovalDetails:
    command = Command(
        "rollback", target, (target,), {"commits_back": 2}, "hotfix", issuer=OLGA, task_id=f"task_{number}"
    )
    preview = preview_of(target)
    approval = Approval(
        approval_id=f"apr_{number:04}",
        supervisor_id="Host",
        command=about.pop("command", command),
        door="slack",
        card={"channel": "C0OPS"},
        previews=about.pop("previews", (preview,)),
        fingerprint="f",
        terms=Terms(OLGA.id),
        state=ApprovalState.PENDING,
        requested_at=NOW,
        expires_at=NOW + timedelta(minutes=15),
    )
    return ApprovalDetails(
        approval, (), "", about.pop("link", "https://work.slack.com/archives/C0OPS/p1770301800000100")
    )


def preview_of(target: str, words: str = "take the new parser out") -> dict[str, Any]:
    """What a rollback of two commits would do to a worker."""
    commits = [{"hash": COMMIT, "subject": words}, {"hash": COMMIT[::-1], "subject": "add the new parser"}]
    return {
        "command": "rollback",
        "checkout": "/srv/archive/code",
        "branch": "main",
        "head": commits[0],
        "target": COMMIT[::-1],
        "commit_count": 2,
        "commits": commits,
        "file_count": 1,
        "files": [{"path": words, "change": "modified"}],
        "workers": [{"id": target, "pid": 4711, "paused": False, "rests": None, "state": "running"}],
    }


def recents() -> list[tuple[CommandSummary, str]]:
    link = "https://work.slack.com/archives/C0OPS/p1770301800000200"
    return [
        (recent("restart_watcher", ("Worker-004",), 1, label="it hangs"), link),
        (recent("update_code", ("Worker-000", "Worker-001", "Worker-002"), 12, ended=12, failed=1), link),
        (recent("pause", ("Worker-006",), 1, ended=1, issuer=Issuer("cli:bert", "bert")), ""),
        (recent("rollback_code", ("Worker-009",), 1, ended=1, failed=1, interrupted=1), link),
    ]


def recent(handler: str, names: tuple[str, ...], count: int, **facts: Any) -> CommandSummary:
    usual = {"issuer": ANNA, "label": None, "filed_at": NOW - timedelta(minutes=3)}
    return CommandSummary("task_1", handler, workers=names, count=count, **{**usual, **facts})


def picture(count: int, role: str = "operator", **facts: Any) -> HomeData:
    """What somebody of this role is shown of a host with so many workers."""
    seen = workers(count)
    usual: dict[str, Any] = {
        "teams": TEAMS,
        "versions": {each["id"]: COMMIT for each in seen},
        "approvals": [asking(1), asking(2, "Worker-013")] if role == "approver" and count > 1 else [],
        "recent": recents() if count > 1 else [],
    }
    return HomeData("Host", seen, NOW, **{**usual, **facts})


HOSTILE = (
    "<!channel> <@U0ANNA> <https://evil.example|click me>",
    "*bold* _it_ ~s~ `code` ```block``` &amp; &lt;!here&gt;",
    "line\nbreaks\r\n\ttabs \u202eright to left\u202c \u0000\u0007 nul",
    "🧨" * 3000,
    "x" * 20_000,
    ":rotating_light: <!date^1^{date}|now> http://plain.example",
)


def hostile(count: int = 80) -> HomeData:
    """Every text as bad as it can be, and every id as long."""
    bad = HOSTILE
    seen = [
        worker(
            f"{'W' * 60}{number:04}",
            bad[number % len(bad)][:255],
            fine=number % 2 == 0,
            paused=number % 4 == 0,
            reason=bad[number % len(bad)],
            last_error=bad[(number + 1) % len(bad)],
        )
        for number in range(count)
    ]
    ids = [each["id"] for each in seen]
    worst = Issuer("flag:<!channel>`*", bad[0])
    command = Command("rollback", "all", tuple(ids), {"commits_back": 10}, "L" * 100, issuer=worst, task_id="task_1")
    asked = [asking(n, command=command, previews=(preview_of(ids[0], each),)) for n, each in enumerate(bad * 3)]
    link = "https://x.example/p1"
    alerts = [OpenAlert(ids[n % count], each, NOW, link) for n, each in enumerate(bad * 3)]
    told = [(recent("update_code_deps", tuple(ids[:3]), count, label="L" * 100, issuer=worst), "https://x/p1")] * 5
    return HomeData(
        host=bad[0] * 5,
        workers=seen,
        at=NOW,
        teams={each["team"]: bad[1] * 20 for each in seen},
        versions={each["id"]: COMMIT for each in seen},
        approvals=asked,
        alerts=alerts,
        recent=told,
    )


def texts(value: object) -> Sequence[str]:
    """Every text of a view in which markup counts."""
    if isinstance(value, dict):
        own = [value["text"]] if value.get("type") == "mrkdwn" else []
        return [*own, *(found for each in value.values() for found in texts(each))]
    return [found for each in value for found in texts(each)] if isinstance(value, list) else []
