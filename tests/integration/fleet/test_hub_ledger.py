"""A hub's ledger in PostgreSQL, and the lock that says which machine is the hub."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from bot.views.cards.notices import hub_taken_over
from supervisor_core.alerts.messages import TAKEOVER
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.services.standby import record_takeover
from supervisor_core.fleet.hub import ledger as locks
from supervisor_core.fleet.hub.ledger import HubLock, LedgerDatabase, NotTheHub
from supervisor_core.storage import outbox, supervisors
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.outbox import CARD, DETAILS, reply_place
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import SupervisorStatus
from tests.support.storage import database_servers
from tests.support.storage.databases import new_database
from tests.support.waiting import wait_until

HUB = "hub"
CONFIG = """
supervisor: {id: hub}
workers: {}
slack: {enabled: true, alert_channel: C0ALERTS, access: {viewers: ["*"]}}
"""
NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
ENTRY = AuditEntry("cli:anna", "PAUSE", "web-1/fetcher")


@pytest.fixture
def url(postgresql: str) -> Iterator[str]:
    with new_database(postgresql) as made:
        yield made


@pytest.fixture
def machine(url: str, tmp_path: Path) -> Callable[..., Ledger]:
    """Opens the hub's ledger on a machine of this name."""

    def opened(name: str, lock: HubLock | None = None) -> Ledger:
        (tmp_path / name).mkdir(exist_ok=True)
        return Ledger(LedgerDatabase(url, 10, HUB, lock), HUB)

    return opened


def cut_connection(url: str, name: str) -> None:
    """End the connection of this machine's lock, as a fault of the network or the server's administrator does."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    query = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name")
    with engine.connect() as connection:
        assert connection.execute(query, {"name": name}).scalars().all() == [True]


def test_one_machine_is_the_hub_until_its_connection_ends(url: str) -> None:
    first, second = HubLock(url, HUB, "one"), HubLock(url, HUB, "two")
    assert first.take() is None
    assert HubLock(url, "another", "three").take() is None, "a lock is for one fleet"
    hub = second.take()
    assert hub is not None
    assert hub.name == "one"
    assert hub.since is not None
    assert abs(datetime.now(UTC) - hub.since) < timedelta(minutes=1)
    first.require()
    with pytest.raises(NotTheHub):
        second.require()
    cut_connection(url, "one")
    wait_until(lambda: second.take() is None, 10.0, "the second one is the hub")
    with pytest.raises(NotTheHub):
        first.require()
    with pytest.raises(NotTheHub):
        first.require()
    second.require()


def test_a_machine_with_another_role_stands_by_too(url: str) -> None:
    first = HubLock(url, HUB, "one")
    assert first.take() is None
    with create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as connection:
        connection.execute(text("DROP ROLE IF EXISTS second_machine"))
        connection.execute(text("CREATE ROLE second_machine LOGIN"))
    other = make_url(url).set(username="second_machine").render_as_string(hide_password=False)
    assert str(HubLock(other, HUB, "two").take()) == "one, the hub"


def test_a_lock_that_is_released_is_free_and_nothing_was_lost(url: str) -> None:
    first, second = HubLock(url, HUB, "one"), HubLock(url, HUB, "two")
    assert first.take() is None
    lost: list[str] = []
    with first.kept(lost.append):
        assert second.take() is not None
    wait_until(lambda: second.take() is None, 10.0, "the second one is the hub")
    assert lost == []


def test_a_hub_without_its_connection_stops_and_writes_nothing(url: str, machine: Callable[..., Ledger]) -> None:
    first, second = HubLock(url, HUB, "one"), HubLock(url, HUB, "two")
    assert first.take() is None
    lost: list[str] = []
    with machine("one", first) as ledger, first.kept(lost.append):
        ledger.audit(ENTRY, NOW)
        cut_connection(url, "one")
        wait_until(lambda: second.take() is None, 10.0, "the second one is the hub")
        with pytest.raises(NotTheHub):
            ledger.audit(ENTRY, NOW)
        assert isinstance(ledger.trouble, NotTheHub)
        wait_until(lambda: lost, 10.0, "the first one is told")
        with machine("two", second) as other:
            assert other.audit(ENTRY, NOW).audit_id == 2
    assert lost == ["The connection that holds the hub's lock has ended."]


def test_a_hub_that_says_nothing_loses_the_lock(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a frozen program does, or a machine that lost its power."""
    monkeypatch.setattr(locks, "IDLE_SECONDS", 1)
    first, second = HubLock(url, HUB, "one"), HubLock(url, HUB, "two")
    assert first.take() is None
    wait_until(lambda: second.take() is None, 10.0, "the second one is the hub")
    with pytest.raises(NotTheHub):
        first.require()


def test_a_server_that_hangs_ends_the_hub_and_holds_up_nobody() -> None:
    """It confirms what it gets and answers nothing, so neither the network nor its own time limits end a query."""
    with database_servers.postgresql() as server:
        first, second = (HubLock(server.url.format(database="postgres"), HUB, name) for name in ("one", "two"))
        assert first.take() is None
        lost: list[str] = []
        with first.kept(lost.append):
            server.freeze()
            begun = time.monotonic()
            with pytest.raises(NotTheHub):
                first.require()
            with pytest.raises(DBAPIError):
                second.take()
            assert time.monotonic() - begun < 20.0
            wait_until(lambda: lost, 10.0, "the hub is told")


def test_a_hub_waits_for_a_write_of_the_one_before_it(url: str, machine: Callable[..., Ledger]) -> None:
    """A program that is frozen in a transaction holds it up for some seconds only."""
    first, second = HubLock(url, HUB, "one"), HubLock(url, HUB, "two")
    assert first.take() is None
    with machine("one", first) as ledger:
        begun, end = threading.Event(), threading.Event()

        def work(_connection: object) -> None:
            begun.set()
            end.wait(20)

        future = ledger.submit(work)
        assert begun.wait(10)
        cut_connection(url, "one")
        with pytest.raises(DBAPIError):
            second.take()
        wait_until(lambda: is_taken(second), 15.0, "the second one is the hub")
        end.set()
        with pytest.raises(LedgerUnavailable):
            future.result(20)


def is_taken(lock: HubLock) -> bool:
    try:
        return lock.take() is None
    except DBAPIError:
        return False


@pytest.mark.parametrize(
    ("hostname", "stopped", "is_told"), [("first", False, True), ("second", False, False), ("first", True, False)]
)
def test_a_takeover_from_a_hub_that_did_not_stop_is_recorded_and_told(
    machine: Callable[..., Ledger], tmp_path: Path, hostname: str, stopped: bool, is_told: bool
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = load_supervisor_config(str(tmp_path / "config.yaml"))
    with machine("second") as ledger:
        about = {"heartbeat_seconds": 30.0, "hostname": hostname, "pid": 7, "version": "1"}
        row, _ = ledger.write(lambda connection: supervisors.begin_life(connection, HUB, about, NOW))
        path = [SupervisorStatus.ACTIVE, *([SupervisorStatus.TERMINATED] if stopped else [])]
        for before, to in zip([row.status, *path], path, strict=False):
            assert ledger.step(supervisors.move(row, before, to, NOW), NOW)
        record_takeover(config, ledger, "second")
        found = ledger.read(lambda connection: search(connection, AuditFilter(action="HUB_TAKEN_OVER")))
        told = ledger.read(lambda connection: outbox.pending_messages(connection, (TAKEOVER,), datetime.now(UTC)))
    assert (len(found), len(told)) == ((1, 1) if is_told else (0, 0))
    for entry in found:
        assert {"machine": "second", "before": "first"}.items() <= json.loads(entry["details_json"]).items()
    for message in told:
        words = hub_taken_over({**message.payload})["text"]
        assert words.startswith(":warning: *second is the hub now*: first has been unresponsive since 14:30:15 UTC")


def test_shells_and_the_hub_write_one_chain_at_once(url: str, machine: Callable[..., Ledger]) -> None:
    lock = HubLock(url, HUB, "one")
    assert lock.take() is None
    with machine("one", lock) as hub, machine("one") as shell, machine("two") as other:
        futures = [
            ledger.submit(lambda connection: chain.append(connection, HUB, ENTRY, NOW))
            for _ in range(20)
            for ledger in (hub, shell, other)
        ]
        assert {future.result(20).audit_id for future in futures} == set(range(1, 61))
        assert hub.read(chain.verify)[:2] == (60, [])


def test_messages_wait_for_the_one_above_them_and_for_their_channel(machine: Callable[..., Ledger]) -> None:
    with machine("one") as ledger:
        below = {**reply_place(CARD, "t1"), "channel": "C1"}
        ledger.order([Message(CARD, "t1", {"channel": "C1"}), Message(DETAILS, "t1/outcome/card", below)], NOW)
        ledger.order([Message(CARD, "t2", {"channel": None, "user": "U1"})], NOW)

        def waiting(*shut: str) -> list[str]:
            found = ledger.read(lambda connection: outbox.pending_messages(connection, (CARD, DETAILS), NOW, shut))
            return [message.subject for message in found]

        assert waiting() == ["t1", "t2"]
        assert waiting("C1") == ["t2"]


def test_a_commit_of_any_program_changes_the_state_of_the_ledger(machine: Callable[..., Ledger]) -> None:
    with machine("one") as ledger, machine("two") as other:
        before = ledger.files_state()
        assert ledger.files_state() == before
        other.audit(ENTRY, NOW)
        assert ledger.files_state() != before


def test_a_server_that_is_away_is_told_without_the_password(tmp_path: Path) -> None:
    place = LedgerDatabase("postgresql+psycopg://anna:s3cret@127.0.0.1:1/fleet", 1, HUB)
    with pytest.raises(LedgerUnavailable, match="can't be used") as raised:
        Ledger(place, HUB)
    assert "s3cret" not in str(raised.value)
