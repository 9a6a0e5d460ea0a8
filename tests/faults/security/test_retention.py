"""Retention: every table and folder is bounded, and nothing goes that somebody may still ask for."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import Boolean, Integer, Table, insert, select, update
from sqlalchemy.types import Float

from supervisor_core.code.git import Git
from supervisor_core.code.git_changes import keep_commit, kept_refs
from supervisor_core.commands.command import Issuer
from supervisor_core.daemon import single_pass
from supervisor_core.daemon.services import retention
from supervisor_core.daemon.services.retention import (
    BATCH,
    CHANGES_KEPT,
    FILES,
    KEPT_TABLES,
    RETENTIONS,
    RetentionChore,
    delete_rows,
    sweep,
)
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import FleetMembers, HostNews
from supervisor_core.host.old_files import EVERY, MARK, PARTS, next_sweep
from supervisor_core.jobs import rows as job_rows
from supervisor_core.storage import tables
from supervisor_core.storage.engine import UtcDateTime
from supervisor_core.storage.store import Ledger
from tests.support.code.code_homes import CodeHost, a_code_host
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.daemon.single_passes import carry_out
from tests.support.homes import ROOT, a_home
from tests.support.storage.ledger_rows import count_pending, do_job, file_job, opened

WRITTEN = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
"""When everything in these tests was written."""

DAY = timedelta(days=1)
LATER = WRITTEN + 91 * DAY
MUCH_LATER = WRITTEN + 366 * DAY
LIMITS = ROOT / "docs" / "reference" / "limits.md"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


@pytest.fixture
def place(tmp_path: Path, code: Clones) -> Iterator[CodeHost]:
    with a_code_host(tmp_path / "host", code.checkout.folder) as made:
        made.start()
        yield made


def add(ledger: Ledger, table: Table, **values: Any) -> None:
    """A row with these values, and something that fits in every other column that needs one."""
    row = {column.name: _something(column.type) for column in table.columns if not column.nullable}
    if table.autoincrement_column is not None:
        del row[table.autoincrement_column.name]
    ledger.write(lambda connection: connection.execute(insert(table), {**row, **values}))


def _something(kind: Any) -> Any:
    if isinstance(kind, UtcDateTime):
        return WRITTEN
    if isinstance(kind, Boolean):
        return False
    return 1 if isinstance(kind, Integer | Float) else "x"


def count(ledger: Ledger, table: Table) -> int:
    return len(ledger.read(lambda connection: connection.execute(select(table)).all()))


def messages(ledger: Ledger, column: Any) -> set[tuple[str, str]]:
    """The kind of each message with another of its columns."""
    query = select(tables.outbox.c.kind, column)
    return {(row[0], row[1]) for row in ledger.read(lambda connection: connection.execute(query).all())}


def delivered(ledger: Ledger) -> None:
    ledger.write(lambda connection: connection.execute(update(tables.outbox).values(state="sent")))


def delete_old(ledger: Ledger, now: datetime, workers: tuple[str, ...] = (), *, shares: bool = False) -> int:
    """Every retention, until nothing is left to delete."""
    total = 0
    for rule in RETENTIONS:
        while deleted := delete_rows(ledger, rule, now, workers, shares=shares)[0]:
            total += deleted
    return total


def sweep_all(place: CodeHost, now: datetime) -> None:
    for _ in sweep(place.host, place.ledger, now):
        pass


def test_every_table_has_a_retention_or_a_reason_and_stands_in_the_limits() -> None:
    bounded = {each.table.name for each in RETENTIONS}
    assert not bounded & set(KEPT_TABLES)
    assert bounded | set(KEPT_TABLES) == set(tables.metadata.tables)
    rows = set(re.findall(r"^\| `(\w+_t)`", LIMITS.read_text(), re.MULTILINE))
    assert rows == set(tables.metadata.tables)


def test_every_folder_with_a_retention_stands_in_the_limits() -> None:
    text = LIMITS.read_text()
    for files in FILES:
        if not files.name.startswith("temporary"):
            assert f"| {files.name}" in text, files.name


def test_a_pass_deletes_old_commands_and_their_messages_once_a_day(tmp_path: Path) -> None:
    with a_home(tmp_path) as home:
        result, newest = carry_out(home, "pause"), carry_out(home, "resume")
        mark = home.state_dir / MARK
        with closing(sqlite3.connect(home.state_dir / "ledger.db")) as connection, connection:
            connection.execute("UPDATE jobs_t SET finished_at = '2026-01-01 00:00:00.000000'")
            connection.execute("UPDATE outbox_t SET created_at = '2026-01-01 00:00:00.000000'")
        assert home.supervisor("once").returncode == 0, "not due yet"
        os.utime(mark, (0, 0))
        assert home.supervisor("once").returncode == 0
        with closing(sqlite3.connect(home.state_dir / "ledger.db")) as connection:
            assert connection.execute("SELECT task_id FROM jobs_t").fetchall() == [(newest["task_id"],)]
            assert connection.execute("SELECT count(*) FROM outbox_t").fetchone() == (0,)
        kept = [row["task_id"] for row in home.audit()]
        assert kept == [result["task_id"], newest["task_id"]], "the trail is kept"
        assert mark.stat().st_mtime > 0
        assert home.result("pause", result["task_id"]) is not None, "its file is younger than that"


def test_passes_that_have_time_for_one_piece_each_come_to_the_end_of_a_sweep(
    place: CodeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_dir, pieces = place.config.state_dir, 0
    left = state_dir / ".config_last_good.json.0123456789ab.tmp"
    for path in (left, state_dir / MARK):
        path.touch()
        os.utime(path, (0, 0))
    monkeypatch.setattr(single_pass, "SWEEP_SECONDS", 0.0)
    place.ledger.close()
    while next_sweep(state_dir, datetime.now(UTC)) <= datetime.now(UTC):
        assert (pieces := pieces + 1) < 100, "it begins anew each time"
        single_pass.Supervisor(place.config.path, "OrionMX")._sweep()  # noqa: SLF001 (all else of a pass is slow)
    assert pieces > len(RETENTIONS)
    assert not left.exists()
    assert not (state_dir / PARTS).exists()


def test_the_daemon_sweeps_in_small_pieces_a_minute_after_its_start(place: CodeHost) -> None:
    started = datetime.now(UTC)
    chore = RetentionChore(lambda: place.host, place.ledger, started)
    for name in ("t1", "t2"):
        do_job(place.ledger, name)
    delivered(place.ledger)
    state_dir = place.config.state_dir
    next_sweep(state_dir, started)
    os.utime(state_dir / MARK, (0, 0))
    chore.work(started)
    assert count(place.ledger, tables.jobs) == 2, "not in its first minute"
    now, rounds = started + 2 * timedelta(minutes=1), 0
    while next_sweep(state_dir, now) <= now:
        assert chore.work(now) is False
        rounds += 1
    assert rounds > len(RETENTIONS)
    assert count(place.ledger, tables.jobs) == 1, "the newest"
    assert next_sweep(state_dir, now) > now + EVERY / 2
    assert chore.due_at() > now, "the look for damage comes sooner"


def test_many_rows_go_in_short_transactions(ledger: Ledger) -> None:
    for number in range(3):
        do_job(ledger, f"t{number}")
    with ledger._engine.begin() as connection:  # noqa: SLF001 (quicker than filing each)
        copy = "INSERT INTO jobs_t SELECT NULL, task_id || '-' || n, {} FROM jobs_t, numbers WHERE task_id = 't0'"
        names = ", ".join(column.name for column in tables.jobs.columns if column.name not in ("job_id", "task_id"))
        numbers = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {2 * BATCH})"
        listed = f"job_id, task_id, {names}"
        words = copy.format(names).replace("INSERT INTO jobs_t", f"INSERT INTO jobs_t ({listed}) {numbers}")
        connection.exec_driver_sql(words)
    (jobs,) = (each for each in RETENTIONS if each.table is tables.jobs)
    delivered(ledger)
    assert [delete_rows(ledger, jobs, MUCH_LATER)[0] for _ in range(4)] == [BATCH, BATCH, 2, 0]


def test_a_command_stays_while_something_refers_to_it(ledger: Ledger) -> None:
    for name in ("gone", "open", "waiting", "watched", "scheduled", "sibling", "young"):
        do_job(ledger, name)
    file_job(ledger, "sibling", "Second")
    ledger.write(
        lambda connection: connection.execute(
            update(tables.outbox).where(tables.outbox.c.subject != "waiting/OrionMX").values(state="sent")
        )
    )
    add(ledger, tables.approvals, approval_id="a1", task_id="open", state="executing")
    add(ledger, tables.approvals, approval_id="a2", task_id="gone", state="done", finished_at=WRITTEN)
    add(ledger, tables.votes, approval_id="a1")
    add(ledger, tables.votes, approval_id="a2")
    add(ledger, tables.bakes, task_id="watched", state="watching")
    add(ledger, tables.schedules, state="waiting", schedule_id="s1", task_id="s1", last_task_id="scheduled")
    young = tables.jobs.c.task_id == "young"
    ledger.write(lambda connection: connection.execute(update(tables.jobs).where(young).values(finished_at=LATER)))
    delete_old(ledger, LATER)
    left = ledger.read(lambda connection: set(connection.scalars(select(tables.jobs.c.task_id))))
    assert left == {"open", "waiting", "watched", "scheduled", "sibling", "young"}
    voted = ledger.read(lambda connection: connection.scalars(select(tables.votes.c.approval_id)).all())
    assert voted == ["a1"], "votes go with their approval"


def test_an_id_that_was_seen_is_known_for_ninety_days(ledger: Ledger) -> None:
    for name in ("t1", "t2"):
        do_job(ledger, name)
    delivered(ledger)
    delete_old(ledger, WRITTEN + 90 * DAY)
    assert ledger.read(partial(job_rows.find, task_id="t1", worker_id="OrionMX")) is not None
    delete_old(ledger, WRITTEN + 90 * DAY + timedelta(seconds=1))
    assert ledger.read(partial(job_rows.find, task_id="t1", worker_id="OrionMX")) is None


def test_audit_rows_wait_for_the_shared_database_as_long_as_it_takes(ledger: Ledger) -> None:
    for kind in ("shared-database", "card"):
        add(ledger, tables.outbox, kind=kind, subject="audit_log_t/TestHost/1", state="pending", due_at=WRITTEN)
    delete_old(ledger, MUCH_LATER, shares=True)
    left = ledger.read(lambda connection: connection.scalars(select(tables.outbox.c.kind)).all())
    assert left == ["shared-database"]
    delete_old(ledger, MUCH_LATER)
    assert count(ledger, tables.outbox) == 0, "no database is configured any more"


def test_what_is_over_goes_and_what_goes_on_stays_in_every_other_table(ledger: Ledger) -> None:
    t = tables
    add(ledger, t.schedules, schedule_id="s1", task_id="s1", state="removed", removed_at=WRITTEN)
    add(ledger, t.schedules, schedule_id="s2", task_id="s2", state="waiting")
    add(ledger, t.bakes, task_id="b1", state="well")
    add(ledger, t.bakes, task_id="b2", state="watching")
    add(ledger, t.alerts, alert_id="a1", state="closed", closed_at=WRITTEN)
    add(ledger, t.alerts, alert_id="a2", state="open")
    add(ledger, t.suppressions, task_id="m1")
    add(ledger, t.suppressions, task_id="m2", until=MUCH_LATER)
    add(ledger, t.envelopes, key="e1", state="handled")
    add(ledger, t.envelopes, key="e2", state="received")
    for name in ("Kept", "Removed"):
        add(ledger, t.workers, worker_id=name, last_heartbeat_at=WRITTEN)
        add(ledger, t.workers, worker_id=f"supervisor_{name}", last_heartbeat_at=WRITTEN)
        add(ledger, t.conditions, target_type="worker", target_id=name, flip_id=2 if name == "Kept" else 1)
    add(ledger, t.flips, flip_id=1)
    add(ledger, t.flips, flip_id=2)
    add(ledger, t.team_members, member_id="left", left_at=WRITTEN)
    add(ledger, t.team_members, member_id="there", active_agent_id="Kept")
    for state in ("sent", "pending"):
        for kind in ("whisper", "card", "alert", "result_file", "home", "welcome"):
            add(ledger, t.outbox, kind=kind, subject=f"{state}/1", state=state, due_at=LATER)
    add(ledger, t.outbox, kind="alert", subject="a2", state="sent")
    delete_old(ledger, LATER, ("Kept",))
    for table in (t.schedules, t.bakes, t.alerts, t.suppressions, t.envelopes, t.conditions, t.flips):
        assert count(ledger, table) == 1, table.name
    assert (count(ledger, t.team_members), count(ledger, t.workers)) == (1, 2)
    told = messages(ledger, t.outbox.c.state)
    waiting = {(kind, "pending") for kind in ("whisper", "card", "alert", "result_file", "home", "welcome")}
    assert told == waiting | {("welcome", "sent"), ("alert", "sent")}
    delete_old(ledger, LATER + 366 * DAY, ("Kept",))
    left = messages(ledger, t.outbox.c.subject)
    renewed = {("welcome", f"{state}/1") for state in ("sent", "pending")}
    assert left == renewed | {("alert", "a2")}, "its alert is still open"


def test_a_hub_keeps_the_last_state_of_a_quiet_worker_of_a_host(place: CodeHost) -> None:
    members, t = FleetMembers(place.ledger), tables
    invite = members.invite("web-1", Issuer("cli:anna", "anna"), WRITTEN)
    members.join(invite.invite_id, "web-1", KeyPair.new().public_key, "1.0", WRITTEN)
    members.seen([HostNews("web-1", "1.0", [{"id": "quiet", "team": "", "enabled": True}])], WRITTEN)
    add(place.ledger, t.conditions, target_type="worker", target_id="web-1/quiet", flip_id=9)
    for number, worker in enumerate(("quiet", "quiet", "removed"), 1):
        add(place.ledger, t.flips, supervisor_id="web-1", flip_id=number, target_type="worker", target_id=worker)
    fleet = structs.replace(place.host.config.fleet, role="hub")
    hub = replace(place.host, config=structs.replace(place.host.config, fleet=fleet))
    for _ in sweep(hub, place.ledger, MUCH_LATER):
        pass
    left = place.ledger.read(lambda look: look.execute(select(t.flips.c.flip_id, t.flips.c.target_id)).all())
    assert [tuple(row) for row in left] == [(2, "quiet")]
    assert count(place.ledger, t.conditions) == 1


def test_a_result_that_the_drive_never_took_is_given_up_after_a_year_with_a_warning(
    place: CodeHost, caplog: pytest.LogCaptureFixture
) -> None:
    do_job(place.ledger, "t1")
    place.ledger.write(lambda connection: connection.execute(update(tables.outbox).values(created_at=WRITTEN)))
    sweep_all(place, LATER)
    assert place.ledger.read(partial(count_pending, kind=job_rows.RESULT_FILE)) == 1
    sweep_all(place, MUCH_LATER)
    assert place.ledger.read(partial(count_pending, kind=job_rows.RESULT_FILE)) == 0
    assert "dropped 1 messages" in caplog.text


def test_an_old_change_can_still_be_undone_and_its_ref_stays(place: CodeHost, code: Clones) -> None:
    before = code.checkout.files()
    change = place.did("rollback 1")
    _age_all(place)
    sweep_all(place, datetime.now(UTC))
    assert len(kept_refs(Git(code.checkout.folder))) == 1
    undone = place.did("undo")
    assert undone.details["undone_task_id"] == change.task_id
    assert code.checkout.files() == code.checkout.on_disk() == before


def test_refs_go_with_the_jobs_of_their_commands_and_unknown_ones_stay(place: CodeHost, code: Clones) -> None:
    git = Git(code.checkout.folder)
    details = '{"before": "a", "after": "b"}'
    for number in range(CHANGES_KEPT + 2):
        task_id = f"t{number:02}"
        do_job(place.ledger, task_id)
        keep_commit(git, task_id, code.checkout.head)
        keep_commit(git, task_id, code.checkout.head, suffix="-changes")
    ids = {"handler": "rollback_code", "details_json": details}
    place.ledger.write(lambda connection: connection.execute(update(tables.jobs).values(**ids)))
    keep_commit(git, "of-another-ledger", code.checkout.head)
    _age_all(place)
    delivered(place.ledger)
    now = datetime.now(UTC)
    sweep_all(place, now)
    refs = kept_refs(git)
    assert count(place.ledger, tables.jobs) == CHANGES_KEPT
    assert len(refs) == 2 * CHANGES_KEPT + 1
    assert "refs/supervisor/of-another-ledger" in refs
    assert not any("/t00" in ref or "/t01" in ref for ref in refs), "the oldest two went"


def _age_all(place: CodeHost) -> None:
    """Have every job and audit row be 100 days old."""
    old = datetime.now(UTC) - 100 * DAY

    def age(connection: Any) -> None:
        connection.execute(update(tables.jobs).values(finished_at=old))
        connection.execute(update(tables.audit_log).values(created_at=old))

    place.ledger.write(age)


def test_old_files_go_and_others_stay(place: CodeHost, tmp_path: Path) -> None:
    outbox_folder = place.config.folder("outbox")
    reports = place.config.folder("logs") / "diagnostics"
    workers = place.config.state_dir / "workers"
    secret = tmp_path / "secret.json"
    secret.write_text("kept")
    goes = [
        outbox_folder / "supervisor_result_pause_t1.json",
        outbox_folder / ".supervisor_result_pause_t1.json.0123456789ab.tmp",
        reports / "diagnostics_OrionMX_20260205T143015Z.json",
        reports / "db_verification_OrionMX_20260205T143015Z_label.json",
        place.config.state_dir / "diagnostics" / "diagnostics_OrionMX_20260205T143015Z.json",
        place.config.state_dir / "packages" / "t1.json",
        place.config.state_dir / ".runtime.json.0123456789ab.tmp",
        workers / "Removed.starts",
    ]
    stays = [outbox_folder / "of somebody else.json", workers / "OrionMX.starts", workers / "Running.starts"]
    stays += [workers / "Running.json", outbox_folder / "supervisor_result_pause_t2.json", reports / ".theirs.tmp"]
    for path in (*goes, *stays):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        os.utime(path, (0, 0))
    os.utime(stays[4])  # a young one
    link = outbox_folder / "supervisor_result_pause_t3.json"
    link.symlink_to(secret)
    sweep_all(place, datetime.now(UTC))
    assert [path for path in goes if path.exists()] == []
    assert [path for path in stays if not path.exists()] == []
    assert (link.is_symlink(), secret.read_text()) == (True, "kept")


def test_a_link_in_place_of_a_folder_is_not_followed(place: CodeHost, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    victim = elsewhere / "supervisor_result_pause_t1.json"
    victim.write_text("{}")
    os.utime(victim, (0, 0))
    place.config.folder("outbox").symlink_to(elsewhere)
    sweep_all(place, datetime.now(UTC))
    assert victim.exists()


def test_no_more_than_so_many_result_files_stay(place: CodeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place.config.folder("outbox")
    folder.mkdir()
    now = datetime.now(UTC)
    for number in range(30):
        path = folder / f"supervisor_result_pause_t{number}.json"
        path.write_text("{}")
        os.utime(path, (now.timestamp() - number, now.timestamp() - number))
    few = tuple(replace(each, most=10) if each.name == "result files" else each for each in FILES)
    monkeypatch.setattr(retention, "FILES", few)
    sweep_all(place, now)
    left = {path.stem.rpartition("_t")[2] for path in folder.iterdir()}
    assert left == {str(number) for number in range(10)}, "the newest"


def test_a_drive_that_is_away_keeps_no_row_from_being_deleted(place: CodeHost) -> None:
    for name in ("t1", "t2"):
        do_job(place.ledger, name)
    delivered(place.ledger)
    place.config.drive_root.rename(place.config.drive_root.with_name("away"))
    sweep_all(place, LATER)
    assert count(place.ledger, tables.jobs) == 1, "the newest"
    assert not place.config.drive_root.exists()
