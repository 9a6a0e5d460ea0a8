"""A host of the fleet that lies: its hub believes it about its own workers alone, and nobody else suffers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection

from bot.views.text import mention
from bot.views.workers import worker_line
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.phrases import plain
from supervisor_core.common.service import Blocking
from supervisor_core.diagnosis.why.model import Cause, Explanation, Finding
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.fleet import rows as fleet_rows
from supervisor_core.fleet.hub.dispatch import CommandDispatcher
from supervisor_core.fleet.hub.fleet import Fleet
from supervisor_core.fleet.hub.hosts import FleetHosts
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import FleetMembers
from supervisor_core.fleet.questions import Asker, dump_explanation
from supervisor_core.fleet.transport.connection import NoAnswer
from supervisor_core.intake.filing import enqueue
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL
from supervisor_core.jobs.remote import cancel_unsent
from supervisor_core.jobs.rows import recent
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import LINK, Condition, TargetReading
from tests.support.daemon.fleets import a_hub_daemon
from tests.support.intake.approvals import ANNA, Desk

HOSTS = ("web-1", "web-2")
BERT = Issuer("slack:T1/U0BERT", "bert")
NO_ROWS: dict[str, list[Any]] = {"jobs_t": [], "audit_log_t": [], "flips_t": []}
CARD = {"channel": "C0OPS"}


def a_worker(**changed: Any) -> dict[str, Any]:
    healthy = {"id": "fetcher", "state": "running", "health": "healthy", "reason": "running", "fine": True, "pid": 7}
    flags = {"paused": False, "quarantined": False, "enabled": True, "team": "", "muted_until": None}
    return {**healthy, **flags, **changed}


def a_job(number: int, **changed: Any) -> dict[str, Any]:
    """A row of a host's ledger, as it reports it."""
    now = datetime.now(UTC).isoformat()
    row = {"job_id": number, "changed": number, "task_id": f"task_{number}", "worker_id": "fetcher", "tier": 2}
    row |= {"supervisor_id": "web-1", "handler": "pause", "params_json": "{}", "label": None, "approvals_json": "[]"}
    row |= {"issuer_id": "cli:anna", "issuer_name": "anna", "owner_id": None, "door": "cli", "state": "done"}
    row |= {"filed_at": now, "created_at": now, "claimed_at": now, "started_at": now, "finished_at": now}
    row |= {"success": True, "error": None, "details_json": "{}", "progress_json": None, "batch": None}
    return {**row, **changed}


@dataclass
class Lines:
    """The lines to the hosts: each answers whatever it likes."""

    jobs: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in HOSTS})
    workers: dict[str, list[Any]] = field(default_factory=lambda: {name: [a_worker()] for name in HOSTS})
    connected: bool = True
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    published: list[str] = field(default_factory=list)
    number: int = 1
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Answers to other questions, by host and question."""

    @property
    def heard_at(self) -> datetime:
        return datetime.now(UTC)

    async def request(self, subject: str, data: bytes, timeout: float) -> bytes:  # noqa: ASYNC109 (the server's)
        host = subject.rpartition(".")[2]
        if host not in HOSTS:
            raise NoAnswer("Nobody listens.")
        body = json.loads(json.loads(data)["signed"])["body"]
        if (host, body["question"]) in self.answers:
            return json.dumps({"answer": self.answers[host, body["question"]]}).encode()
        if body["question"] == "rows":
            new = [row for row in self.jobs[host] if row["changed"] > body["about"]["jobs"]]
            answer: dict[str, Any] = {**NO_ROWS, "jobs_t": new[:500]}
        else:
            answer = {"life": "life", "number": self.number, "workers": self.workers[host], "readings": []}
        return json.dumps({"answer": answer}).encode()

    async def publish_durably(self, subject: str, data: bytes, message_id: str) -> object:
        self.published.append(message_id)
        return {}

    def presence(self, host: str) -> bytes:
        newest = max((row["changed"] for row in self.jobs[host]), default=0)
        document: dict[str, Any] = {
            "host": host,
            "at": datetime.now(UTC).isoformat(),
            "ledger": f"of-{host}",
            "life": "life",
        }
        document |= {"snapshot": self.number, "version": "1.0", "every": 5.0}
        return json.dumps({**document, "position": {"jobs": newest, "audit": 0, "flips": 0}}).encode()


@dataclass
class Hub:
    """A hub that follows its hosts."""

    desk: Desk
    lines: Any
    hosts: FleetHosts
    seen: list[TargetReading]

    @property
    def ledger(self) -> Ledger:
        return self.desk.ledger

    async def hear(self, *names: str) -> None:
        """Take what these hosts announce."""
        self.lines.number += 1
        for name in names or HOSTS:
            self.hosts.hear(name, self.lines.presence(name))

    def worker(self, address: str) -> dict[str, Any]:
        return next(each for each in self.hosts.workers() if each["id"] == address)

    def alerts_of(self, host: str) -> list[str]:
        """The reasons of the alerts about the link to this host."""
        return [
            seen.reading.reason
            for seen in self.seen
            if (seen.target.kind, seen.target.id) == (LINK, host) and seen.reading.condition is Condition.REFUSED
        ]


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **arguments: Any) -> None:
        asyncio.run(test(*args, **arguments))

    return run


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_hub(desk: Desk) -> AsyncIterator[Hub]:
    members, key, now = FleetMembers(desk.ledger), KeyPair.new(), datetime.now(UTC)
    for name in HOSTS:
        invite = members.invite(name, ANNA, now).invite_id
        members.join(invite, name, KeyPair.new().public_key, "1.0", now)
    lines: Any = Lines()
    seen = list[TargetReading]()
    daemon = a_hub_daemon(CARD, publish_readings=seen.extend)
    hosts = FleetHosts(desk.ledger, Blocking(), Asker(lines, key), members, lines, daemon)
    hosts.begin(members.hosts())
    stopping = asyncio.Event()
    running = asyncio.create_task(hosts.run(stopping))
    await asyncio.sleep(0)
    try:
        yield Hub(desk, lines, hosts, seen)
    finally:
        stopping.set()
        await running


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with made.ledger:
        yield made


RESERVED = "task_20261119_120000_0123456ab"


@pytest.mark.parametrize(
    "claim",
    [
        {"task_id": RESERVED, "door": "slack", "issuer_id": ANNA.id},
        {"task_id": "task_known", "door": "cli", "issuer_id": ANNA.id},
        {"task_id": "task_known", "door": "cli", "approvals_json": json.dumps([{"id": ANNA.id, "name": "anna"}])},
    ],
)
@in_a_loop
async def test_a_command_that_a_host_reports_is_no_submission(desk: Desk, claim: dict[str, str]) -> None:
    async with a_hub(desk) as hub:
        hub.lines.jobs["web-1"] = [a_job(1, handler="restart_watcher", **claim), a_job(2)]
        await hub.hear()
        await until(lambda: desk.ledger.read(_position) >= 2)
        issuer = Issuer(claim.get("issuer_id", "cli:anna"), "anna")
        assert not desk.gateway.was_submitted(claim["task_id"], issuer.id)
        submitted = desk.gateway.submit(desk.gateway.parse("restart North"), issuer, "slack", claim["task_id"])
        assert submitted.approval is not None
        if claim.get("issuer_id"):
            await until(lambda: hub.alerts_of("web-1"))
            refused = desk.ledger.read(lambda look: search(look, AuditFilter(action="REFUSED")))
            assert [(row["supervisor_id"], row["target_id"]) for row in refused] == [("TestHost", "web-1")]
        assert not hub.alerts_of("web-2")
        assert not hub.hosts.problem()


def _position(connection: Connection) -> int:
    return fleet_rows.copied_changes(connection, fleet_rows.Origin("of-web-1", "web-1")) or 0


@in_a_loop
async def test_reported_commands_are_never_sent_and_hold_up_no_other_host(desk: Desk) -> None:
    async with a_hub(desk) as hub:
        hub.lines.jobs["web-1"] = [a_job(number, state="queued") for number in range(1, 701)]
        await hub.hear()
        await until(lambda: desk.ledger.read(_position) == 700)
        large = {"note": "x" * 2_000_000}
        for task_id, worker, params in (("task_large", "web-1/fetcher", large), ("task_small", "web-2/fetcher", {})):
            command = Command("pause", worker, (worker,), params).issued(ANNA, task_id)
            enqueue(desk.ledger, command, "cli", datetime.now(UTC))
        async with a_dispatcher(desk, hub.lines, lambda: HOSTS):
            await until(lambda: len(hub.lines.published) >= 1 and desk.jobs("task_large")[0].state in FINAL)
        assert [each.partition("/")[0] for each in hub.lines.published] == ["task_small"]
        (refused,) = desk.jobs("task_large")
        assert refused.outcome is not None
        assert "too large" in str(refused.outcome.error)


@in_a_loop
async def test_a_malformed_field_sets_its_host_aside_alone_by_name(desk: Desk) -> None:
    async with a_hub(desk) as hub:
        await hub.hear()
        await until(lambda: len(hub.hosts.workers()) == 2)
        for bad in (
            a_worker(pid="<!channel>"),
            a_worker(fine="yes"),
            a_worker(reason=["a"]),
            a_worker(started_at="soon"),
            a_worker(state="<https://evil.example|fine>"),
            a_worker(reason="x" * 900_000),
            7,
        ):
            hub.lines.workers = {"web-1": [bad], "web-2": [a_worker(pid=8)]}
            await hub.hear()
            await until(hub.hosts.problem)
            await until(lambda: hub.worker("web-2/fetcher")["pid"] == 8)
            assert hub.hosts.problem().startswith("web-1: ")
            set_aside = hub.worker("web-1/fetcher")
            assert (set_aside["pid"], set_aside["fine"], set_aside["health"]) == (7, False, "unknown")
            assert "set aside" in set_aside["reason"]
            hub.lines.workers = {"web-1": [a_worker()], "web-2": [a_worker()]}
            hub.hosts.hosts["web-1"].woken.set()
            await hub.hear()
            await until(lambda: not hub.hosts.problem())
            assert hub.worker("web-1/fetcher")["fine"]
        await until(lambda: hub.alerts_of("web-1"))
        assert len({*hub.alerts_of("web-1")}) == 1
        assert not hub.alerts_of("web-2")


@in_a_loop
async def test_a_crash_elsewhere_is_told_as_here(desk: Desk) -> None:
    crashed = a_worker(state="backing_off", health="missing", reason="exited (code 3); waits", fine=False, pid=None)
    crashed |= {"last_error": "exited (code 3)", "start_error": None, "heartbeat_file": "/srv/state/beat.json"}
    async with a_hub(desk) as hub:
        hub.lines.workers["web-1"] = [crashed]
        await hub.hear()
        await until(lambda: len(hub.hosts.workers()) == 2)
        there = hub.worker("web-1/fetcher")
        assert worker_line({**there, "id": "fetcher"}) == worker_line(crashed)
        assert there["heartbeat_file"] == crashed["heartbeat_file"]


@pytest.mark.parametrize(
    "lie",
    [
        {"task_id": "<!channel>"},
        {"details_json": json.dumps({"new_pid": "<!channel>"})},
        {"details_json": json.dumps({"workers": {"fetcher": {"new_pid": "<!channel>"}}})},
        {"details_json": "[" * 10_000},
        {"state": "sleeping"},
        {"finished_at": "never"},
        {"success": "yes"},
        {"changed": 10**30},
        {"progress_json": json.dumps([{"at": "never", "words": 7}])},
    ],
)
@in_a_loop
async def test_a_malformed_row_is_not_taken_and_its_host_is_named(desk: Desk, lie: dict[str, Any]) -> None:
    async with a_hub(desk) as hub:
        hub.lines.jobs = {"web-1": [a_job(1, **lie)], "web-2": [a_job(1, task_id="task_good")]}
        await hub.hear()
        await until(lambda: hub.hosts.problem() and hub.alerts_of("web-1"))
        await until(lambda: desk.ledger.read(lambda look: jobs.of_task(look, "task_good")))
        assert hub.hosts.problem().startswith("web-1: ")
        assert [each.task_id for each in desk.ledger.read(lambda look: recent(look, 10))] == ["task_good"]


@in_a_loop
async def test_an_interrupted_change_of_code_is_taken_and_sets_no_host_aside(desk: Desk) -> None:
    left = {"folder": "/srv/app", "clean": False, "under_way": None, "changes": ["a.py"], "lock": None}
    details = {"before": "c" * 40, "after": "c" * 40, "commits": [], "checkout": left, "interrupted": True, "pid": None}
    async with a_hub(desk) as hub:
        ended = {"state": "interrupted", "success": False, "error": "Interrupted", "details_json": json.dumps(details)}
        hub.lines.jobs["web-1"] = [a_job(1, task_id="task_cut", handler="rollback_code", **ended)]
        await hub.hear()
        await until(lambda: desk.ledger.read(_position) or hub.hosts.problem())
        assert not hub.hosts.problem()
        assert desk.ledger.read(lambda look: jobs.of_task(look, "task_cut"))


@asynccontextmanager
async def a_dispatcher(desk: Desk, lines: Any, hosts: Callable[[], Any], **about: Any) -> AsyncIterator[Any]:
    dispatcher = CommandDispatcher(
        desk.ledger, Blocking(), lines, KeyPair.new(), hosts, timedelta(minutes=1), lambda: "", **about
    )
    stopping = asyncio.Event()
    running = asyncio.create_task(dispatcher.run(stopping))
    try:
        yield dispatcher
    finally:
        stopping.set()
        await running


def queue_pauses(desk: Desk, *workers: str) -> None:
    for worker in workers:
        command = Command("pause", worker, (worker,)).issued(ANNA, f"task_{worker.replace('/', '_')}")
        enqueue(desk.ledger, command, "cli", datetime.now(UTC))


@in_a_loop
async def test_a_host_that_leaves_while_commands_are_sent_stops_no_dispatch(desk: Desk) -> None:
    hosts = dict.fromkeys(HOSTS)

    class Leaving(Lines):
        async def publish_durably(self, subject: str, data: bytes, message_id: str) -> object:
            hosts.pop("web-1", None)
            return await super().publish_durably(subject, data, message_id)

    lines = Leaving()
    queue_pauses(desk, "web-1/fetcher", "web-2/fetcher")
    async with a_dispatcher(desk, lines, hosts.keys) as dispatcher:
        await until(lambda: len(lines.published) == 2)
        queue_pauses(desk, "web-2/sender")
        dispatcher.wake()
        await until(lambda: len(lines.published) == 3)


@in_a_loop
async def test_only_a_command_that_was_surely_not_sent_can_be_cancelled(desk: Desk) -> None:
    class Mute(Lines):
        """The server stores each message, and its answer is lost."""

        async def publish_durably(self, subject: str, data: bytes, message_id: str) -> object:
            await super().publish_durably(subject, data, message_id)
            raise NoAnswer("There's no answer.")

    def cancel(worker: str) -> int:
        hub_id, now = desk.ledger.supervisor_id, datetime.now(UTC)
        return desk.ledger.write(lambda local: cancel_unsent(local, hub_id, f"task_{worker}", BERT, now))

    lines = Mute()
    queue_pauses(desk, "web-1/fetcher", "web-2/fetcher")
    async with a_dispatcher(desk, lines, lambda: HOSTS, silent=lambda: ["web-2"]):
        await until(lambda: lines.published)
        assert (cancel("web-1_fetcher"), cancel("web-2_fetcher")) == (0, 1)
    (row,) = desk.ledger.read(lambda look: search(look, AuditFilter(action="CANCELLED")))
    assert (row["actor"], row["target_id"], row["task_id"]) == (BERT.id, "web-2/fetcher", "task_web-2_fetcher")


@in_a_loop
async def test_thousands_of_hosts_hold_up_no_command(desk: Desk) -> None:
    lines, many = Lines(), [f"silent-{number}" for number in range(3_000)]
    queue_pauses(desk, "silent-7/fetcher", "web-2/fetcher")
    async with a_dispatcher(desk, lines, lambda: [*many, *HOSTS], silent=lambda: many) as dispatcher:
        held = partial(jobs.of_task, task_id="task_silent-7_fetcher")
        await until(lambda: lines.published and desk.ledger.read(held)[0].progress)
        assert [each.partition("/")[0] for each in lines.published] == ["task_web-2_fetcher"]
        assert not dispatcher.problem()


@in_a_loop
async def test_a_flood_is_read_slowly_and_delays_nobody(desk: Desk) -> None:
    async with a_hub(desk) as hub:
        hub.lines.jobs["web-1"] = [a_job(number) for number in range(1, 20_001)]
        await hub.hear("web-1")
        await until(lambda: hub.hosts.problem() and hub.alerts_of("web-1"))
        hub.lines.jobs["web-2"] = [a_job(1, task_id="task_of_web-2")]
        await hub.hear("web-2")
        await until(lambda: desk.ledger.read(lambda look: jobs.of_task(look, "task_of_web-2")))
        assert desk.ledger.read(_position) < 5_000
        assert hub.hosts.problem().startswith("web-1: more than")
        assert len(set(hub.alerts_of("web-1"))) == 1


@in_a_loop
async def test_people_s_cards_come_before_those_of_a_host_that_reports_many(desk: Desk) -> None:
    async with a_hub(desk) as hub:
        hub.lines.jobs["web-1"] = [a_job(number) for number in range(1, 501)]
        await hub.hear()
        await until(lambda: desk.ledger.read(_position) == 500)
        submitted = desk.gateway.submit(desk.gateway.parse("pause North"), ANNA, "slack", card=CARD)
        now = datetime.now(UTC)
        waiting = desk.ledger.read(lambda look: outbox.pending_messages(look, [outbox.CARD], now))
        assert waiting[0].subject == submitted.task_id
        assert 1 < len(waiting) <= 50


@in_a_loop
async def test_a_person_whom_a_host_names_is_marked_as_reported_by_it(desk: Desk) -> None:
    async with a_hub(desk) as hub:
        hub.lines.jobs["web-1"] = [a_job(1, door="flag", issuer_id=ANNA.id), a_job(2)]
        await hub.hear()
        await until(lambda: desk.ledger.read(_position) == 2)
        for summary in desk.ledger.read(lambda look: recent(look, 2)):
            assert "anna (reported by web-1)" in mention(summary.issuer)
            assert "<@" not in mention(summary.issuer)


TOLD = dump_explanation(Explanation("fetcher", datetime.now(UTC), fine=False, found=Finding(Cause.WELL, ("it runs",))))
JUNK: list[Any] = [
    7,
    "fetcher",
    [7],
    [{"worker_id": "fetcher"}],
    [{**asdict(WorkerLog("fetcher", "f")), "lines": 7}],
    [{**asdict(WorkerLog("fetcher", "f")), "size_bytes": float("inf")}],
    *([{**TOLD, "remedies": [{"name": "restart", "params": {}, "label": label}]}] for label in (7, "x" * 9_999)),
    [{**TOLD, "remedies": [{"name": "rollback", "params": {"commits": {}}, "label": None}]}],
]


@pytest.mark.parametrize("junk", JUNK)
@in_a_loop
async def test_a_host_that_answers_junk_or_nothing_is_named_and_the_others_are_shown(desk: Desk, junk: Any) -> None:
    workers = ["web-1/fetcher", "web-2/fetcher", "web-3/fetcher"]
    async with a_hub(desk) as hub:
        told = Explanation("fetcher", datetime.now(UTC), fine=True, found=Finding(Cause.WELL, ("it runs",)))
        answers = {"logs": [asdict(WorkerLog("fetcher", "f.log", ("hello",)))], "why": [dump_explanation(told)]}
        for question, answer in answers.items():
            hub.lines.answers |= {("web-1", question): junk, ("web-2", question): answer}
        ask = Asker(hub.lines, KeyPair.new())
        fleet = Fleet(hub.hosts, ask, cast(Any, SimpleNamespace(config=desk.config)))
        logs = await fleet.newest_output(workers, 5)
        assert [log.worker_id for log in logs] == workers
        assert [bool(log.problem) for log in logs] == [True, False, True]
        explained = {each.worker_id: each for each in await fleet.explain(workers)}
        assert explained.keys() == set(workers)
        assert explained["web-2/fetcher"].fine
        for host in ("web-1", "web-3"):
            assert host in plain(explained[f"{host}/fetcher"].found.sentence, datetime.now(UTC))
