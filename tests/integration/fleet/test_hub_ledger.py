"""A hub's ledger in a database server, and the lease that says which machine is the hub."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text, update
from sqlalchemy.exc import DBAPIError

from bot.views.cards.notices import hub_taken_over
from supervisor_core.alerts.messages import TAKEOVER
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.services.standby import record_takeover
from supervisor_core.fleet.hub import lease as leases_of
from supervisor_core.fleet.hub.lease import HubLease, LeaseLost
from supervisor_core.fleet.hub.ledger import LedgerDatabase
from supervisor_core.storage import outbox
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import AuditEntry, ChainHead, HeadFile
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.engine import shared_engine
from supervisor_core.storage.outbox import CARD, DETAILS, reply_place
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import leases
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


@pytest.fixture(params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with new_database(request.getfixturevalue(request.param)) as made:
        yield made


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = shared_engine(url)
    try:
        yield made
    finally:
        made.dispose()


@pytest.fixture
def machine(url: str, tmp_path: Path) -> Callable[..., Ledger]:
    """Opens the hub's ledger on a machine of this name."""

    def opened(name: str, held: HubLease | None = None) -> Ledger:
        (tmp_path / name).mkdir(exist_ok=True)
        return Ledger(LedgerDatabase(url, 10, HUB, held), HUB, HeadFile(tmp_path / name))

    return opened


def a_lease(engine: Engine, machine: str) -> HubLease:
    made = HubLease(engine, HUB, machine)
    made.prepare()
    return made


def expire(engine: Engine) -> None:
    """Have the lease end, as if its holder were gone."""
    with engine.begin() as connection:
        past = leases_of.database_time(connection) - timedelta(seconds=1)
        connection.execute(update(leases).values(until=past))


@contextmanager
def writing(ledger: Ledger) -> Iterator[None]:
    """Hold a write transaction open meanwhile."""
    begun, end = threading.Event(), threading.Event()

    def work(_connection: object) -> None:
        begun.set()
        end.wait(20)

    future = ledger.submit(work)
    assert begun.wait(10)
    try:
        yield
    finally:
        end.set()
        with pytest.raises(LedgerUnavailable):
            future.result(20)


def test_one_machine_has_the_lease_until_it_ends_and_its_number_rises(engine: Engine) -> None:
    first, second = a_lease(engine, "one"), a_lease(engine, "two")
    assert first.take() is None
    assert first.take() is None
    holder = second.take()
    assert holder is not None
    assert (holder.machine, abs(datetime.now(UTC) - holder.since) < timedelta(minutes=1)) == ("one", True)
    first.require()
    with pytest.raises(LeaseLost):
        second.require()
    expire(engine)
    assert second.take() is None
    with engine.connect() as connection:
        assert connection.execute(leases.select()).mappings().one()["number"] == 2
    holder = first.take()
    assert holder is not None
    assert holder.machine == "two"
    expire(engine)
    with pytest.raises(LeaseLost, match="was taken over by two"):
        first.take()


def test_a_lease_that_is_given_back_is_free_at_once(engine: Engine) -> None:
    first, second = a_lease(engine, "one"), a_lease(engine, "two")
    assert first.take() is None
    lost: list[str] = []
    with first.kept(lost.append):
        assert second.take() is not None
    assert second.take() is None
    assert lost == []


def test_a_takeover_is_recorded_and_told_once_and_a_lease_that_was_given_back_is_none(
    engine: Engine, machine: Callable[..., Ledger], tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = load_supervisor_config(str(tmp_path / "config.yaml"))
    assert a_lease(engine, "first").take() is None
    expire(engine)
    second = a_lease(engine, "second")
    assert second.take() is None
    with machine("second", second) as ledger:
        record_takeover(config, ledger, second)
        (row,) = ledger.read(lambda connection: search(connection, AuditFilter(action="HUB_TAKEN_OVER")))
        assert {"machine": "second", "before": "first"}.items() <= json.loads(row["details_json"]).items()
        (told,) = ledger.read(lambda connection: outbox.pending_messages(connection, (TAKEOVER,), datetime.now(UTC)))
    words = hub_taken_over({**told.payload})["text"]
    assert words.startswith(":warning: *second is the hub now*: first has been unresponsive since ")
    with second.kept(lambda _: None):
        """Given back at the end."""
    third = a_lease(engine, "third")
    assert third.take() is None
    assert third.replaced is None


def test_who_finds_another_holder_at_a_renewal_is_told(engine: Engine) -> None:
    first, second = a_lease(engine, "one"), a_lease(engine, "two")
    assert first.take() is None
    lost: list[str] = []
    with first.kept(lost.append):
        expire(engine)
        assert second.take() is None
        wait_until(lambda: lost, 10.0, "the first one is told")
        with pytest.raises(LeaseLost):
            first.require()
    assert lost == ["two has taken over."]


def test_a_write_of_a_machine_that_lost_its_lease_changes_nothing(
    engine: Engine, machine: Callable[..., Ledger]
) -> None:
    first, second = a_lease(engine, "one"), a_lease(engine, "two")
    assert first.take() is None
    with machine("one", first) as ledger:
        ledger.audit(ENTRY, NOW)
        expire(engine)
        assert second.take() is None
        with pytest.raises(LeaseLost, match="was taken over"):
            ledger.audit(ENTRY, NOW)
        assert isinstance(ledger.trouble, LeaseLost)
        with machine("two", second) as other:
            assert other.audit(ENTRY, NOW).audit_id == 2
            assert other.trouble is None


def test_a_program_that_is_frozen_in_a_transaction_keeps_no_other_machine_from_taking_over(
    engine: Engine, machine: Callable[..., Ledger]
) -> None:
    first, second = a_lease(engine, "one"), a_lease(engine, "two")
    assert first.take() is None
    with machine("one", first) as ledger:
        with writing(ledger):
            with engine.connect() as connection:
                until = connection.execute(leases.select()).mappings().one()["until"]
            wait_until(lambda: second.take() is None, 15.0, "the second one has the lease")
            assert datetime.now(UTC) - until < timedelta(seconds=4)
        with pytest.raises(LeaseLost):
            ledger.audit(ENTRY, NOW)


def test_shells_and_the_hub_write_one_chain_at_once(engine: Engine, machine: Callable[..., Ledger]) -> None:
    held = a_lease(engine, "one")
    assert held.take() is None
    with machine("one", held) as hub, machine("one") as shell, machine("two") as other:
        futures = [
            ledger.submit(lambda connection: audit.append(connection, HUB, ENTRY, NOW))
            for _ in range(20)
            for ledger in (hub, shell, other)
        ]
        assert {future.result(20).audit_id for future in futures} == set(range(1, 61))
        newest = hub.read(lambda connection: audit.newest_row(connection, HUB))
        assert newest is not None
        assert hub.read(lambda connection: audit.verify(connection, [newest])) == (60, [])


def test_each_machine_follows_the_chain_with_a_note_of_its_own(
    machine: Callable[..., Ledger], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = HeadFile(tmp_path / "one"), HeadFile(tmp_path / "two")
    with machine("one") as ledger:
        ledger.audit(ENTRY, NOW)
    assert two.read(HUB) is None
    with machine("two") as ledger:
        ledger.audit(ENTRY, NOW)
        last = ledger.audit(ENTRY, NOW)
    assert two.read(HUB) == last
    assert one.read(HUB) != last
    with machine("one") as ledger:
        last = ledger.audit(ENTRY, NOW)
        assert one.read(HUB) == last
        heads = two.all()
        assert ledger.read(lambda connection: audit.verify(connection, heads)) == (4, []), "an older note is as good"
    assert caplog.records == []
    two.keep(ChainHead(HUB, 9, "f" * 64))
    with machine("two") as ledger:
        ledger.audit(ENTRY, NOW)
    assert "the audit trail was altered at or before row 9" in caplog.text


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
        Ledger(place, HUB, HeadFile(tmp_path))
    assert "s3cret" not in str(raised.value)


def test_a_value_that_mariadb_refuses_fails_its_write_alone(tmp_path: Path, mariadb: str) -> None:
    """PyMySQL calls such an error operational, like one of the connection."""
    with new_database(mariadb) as url, Ledger(LedgerDatabase(url, 10, HUB), HUB, HeadFile(tmp_path)) as ledger:
        creator = shared_engine(url)
        with creator.begin() as connection:  # a table ends a savepoint
            connection.execute(text("create table odd_t (at datetime not null)"))
        creator.dispose()

        def insert(value: str) -> None:
            ledger.write(lambda connection: connection.execute(text(f"insert into odd_t values ({value})")))

        for value in ("'soon'", "default"):
            with pytest.raises(DBAPIError, match="OperationalError"):
                insert(value)
        insert("now()")
