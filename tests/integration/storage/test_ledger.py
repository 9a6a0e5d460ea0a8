"""The ledger as real processes use it: side by side, killed, on a full disk; and what is written stays written."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import IntegrityError

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.storage import outbox, schema
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry, ChainHead
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.steps import Message, record
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log, envelopes
from tests.support.programs.warm import forked
from tests.support.storage.ledger_rows import count_pending
from tests.support.waiting import wait_until

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
HOST = "TestHost"
FORKED = forked()


def opened(folder: Path) -> Ledger:
    return Ledger(folder / LEDGER_FILE, HOST)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "var"


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    with opened(folder) as made:
        yield made


def entry(number: int = 0, **details: Any) -> AuditEntry:
    return AuditEntry("cli:anna", "PAUSE", "OrionMX", label="anna - hotfix", details={"n": number, **details})


def appending(number: int) -> Callable[[Connection], ChainHead]:
    return lambda connection: chain.append(connection, HOST, entry(number), NOW)


def numbers(ledger: Ledger) -> list[int]:
    """What the rows of the trail are numbered, in the order of the chain."""
    rows = ledger.read(lambda connection: search(connection, AuditFilter(limit=10**6)))
    return [
        {**row, "details": json.loads(row["details_json"])}["details"]["n"]
        for row in sorted(rows, key=lambda row: row["audit_id"])
    ]


def verified(ledger: Ledger) -> tuple[int, list[chain.Fault]]:
    return ledger.read(chain.verify)[:2]


class Held:
    """Keeps the writer busy, so that what is submitted meanwhile is written in one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._release = threading.Event()
        entered = threading.Event()

        def wait(_connection: Connection) -> None:
            entered.set()
            assert self._release.wait(20)

        self._first = ledger.submit(wait)
        assert entered.wait(5)

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        self._release.set()
        self._first.result(20)


# Processes side by side


def append_rows(folder: Path, start: Barrier, first: int, count: int) -> None:
    start.wait(60)
    with opened(folder) as ledger:
        for number in range(first, first + count):
            ledger.audit(entry(number))


def test_four_processes_open_a_new_ledger_and_append_at_once_and_there_is_one_chain(folder: Path) -> None:
    start = FORKED.Barrier(4)
    writers = [FORKED.Process(target=append_rows, args=(folder, start, place * 1000, 25)) for place in range(4)]
    folder.mkdir(mode=0o700)
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0, "no `database is locked`, no second making of the tables"
    with opened(folder) as ledger:
        written = numbers(ledger)
        assert sorted(written) == sorted(place * 1000 + number for place in range(4) for number in range(25))
        for place in range(4):
            mine = [number for number in written if number // 1000 == place]
            assert mine == sorted(mine), "each one's rows keep their order"
        assert verified(ledger) == (100, [])


def append_for_ever(folder: Path, running: Event) -> None:
    with opened(folder) as ledger:
        number = 0
        while True:
            for future in [ledger.submit(appending(number + more)) for more in range(20)]:
                future.result()
            number += 20
            running.set()


def test_a_writer_killed_in_the_middle_leaves_a_readable_ledger_with_a_whole_chain(folder: Path) -> None:
    for _ in range(2):
        running = FORKED.Event()
        writer = FORKED.Process(target=append_for_ever, args=(folder, running))
        writer.start()
        assert running.wait(60)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(20)
        with opened(folder) as ledger:
            count, faults = verified(ledger)
            assert faults == []
            assert count >= 20
            ledger.audit(entry())
            assert verified(ledger) == (count + 1, [])


def test_a_reader_waits_for_no_writer_and_sees_one_picture(ledger: Ledger) -> None:
    ledger.audit(entry(1))
    with Held(ledger):
        before = numbers(ledger)
        waiting = ledger.submit(appending(2))
        assert numbers(ledger) == before == [1]
        assert not waiting.done()
    waiting.result(5)
    assert numbers(ledger) == [1, 2]


def test_the_files_are_ours_alone(ledger: Ledger, folder: Path) -> None:
    before = os.umask(0)
    try:
        ledger.audit(entry())
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {f"{LEDGER_FILE}", f"{LEDGER_FILE}-wal", f"{LEDGER_FILE}-shm"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes


# One writer, many writes


def fail(connection: Connection) -> ChainHead:
    chain.append(connection, HOST, entry(666), NOW)
    raise ZeroDivisionError


def test_of_a_group_the_one_that_raises_is_undone_alone(ledger: Ledger, folder: Path) -> None:
    with Held(ledger):
        futures = [ledger.submit(fail if number == 2 else appending(number)) for number in range(5)]
    heads = [future.result(5) for number, future in enumerate(futures) if number != 2]
    assert [head.audit_id for head in heads] == [1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        futures[2].result(5)
    assert numbers(ledger) == [0, 1, 3, 4]
    assert verified(ledger) == (4, [])


def test_one_that_breaks_a_rule_of_the_tables_is_undone_alone(ledger: Ledger) -> None:
    row = {"key": "x", "kind": "x", "payload_json": "{}", "state": "received", "received_at": NOW}

    def twice(connection: Connection) -> None:
        for _ in range(2):
            connection.execute(envelopes.insert(), row)

    with Held(ledger):
        bad, good = ledger.submit(twice), ledger.submit(appending(1))
    with pytest.raises(IntegrityError):
        bad.result(5)
    assert good.result(5).audit_id == 1
    assert ledger.read(lambda c: c.execute(select(func.count(envelopes.c.key))).scalar()) == 0


def test_what_a_caller_no_longer_wants_is_not_written(ledger: Ledger) -> None:
    with Held(ledger):
        unwanted, wanted = ledger.submit(appending(1)), ledger.submit(appending(2))
        assert unwanted.cancel()
    wanted.result(5)
    assert numbers(ledger) == [2]


def test_closing_writes_what_waits_and_then_takes_no_more(folder: Path) -> None:
    ledger = opened(folder)
    with Held(ledger):
        futures = [ledger.submit(appending(number)) for number in range(450)]
        closing = threading.Thread(target=ledger.close)
        closing.start()
    closing.join(20)
    assert [future.result(0).audit_id for future in futures] == list(range(1, 451))
    with pytest.raises(RuntimeError, match="closed"):
        ledger.submit(appending(1))
    ledger.close()
    with opened(folder) as again:
        assert numbers(again) == list(range(450))


def test_a_transaction_that_sqlite_undid_is_told_to_everybody_in_it(ledger: Ledger, folder: Path) -> None:
    """On a broken disk SQLite may roll back by itself, and a commit after that says nothing."""

    def lose_it(connection: Connection) -> None:
        connection.connection.cursor().execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    with Held(ledger):
        futures: list[Future[Any]] = [ledger.submit(appending(1)), ledger.submit(lose_it), ledger.submit(appending(3))]
    for future in futures:
        with pytest.raises(LedgerUnavailable):
            future.result(5)
    assert numbers(ledger) == []
    ledger.audit(entry(4))
    assert numbers(ledger) == [4]
    assert verified(ledger) == (1, [])


def test_a_file_that_is_no_ledger_is_said_in_words(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / LEDGER_FILE).write_bytes(b"garbage" * 1000)
    with pytest.raises(LedgerUnavailable, match="not a database"):
        Ledger(folder / LEDGER_FILE, HOST)


# A full disk


def set_limit(ledger: Ledger, pages: int) -> None:
    """Let the file grow by so many pages; the limit counts for the writer's connection."""

    def work(connection: Connection) -> None:
        now = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {now + pages}"))

    ledger.write(work)


def test_on_a_full_disk_a_write_is_refused_in_words_and_after_that_all_goes_on(ledger: Ledger, folder: Path) -> None:
    big = entry(1, text="x" * 100_000)
    ledger.audit(entry(0))
    set_limit(ledger, 2)
    with pytest.raises(LedgerUnavailable, match="full") as caught:
        ledger.audit(big)
    assert caught.value.retryable
    assert "the disk is full" in caught.value.message
    assert numbers(ledger) == [0], "reading goes on"
    set_limit(ledger, 1000)
    ledger.audit(big)
    ledger.audit(entry(2))
    assert numbers(ledger) == [0, 1, 2]
    assert verified(ledger) == (3, [])


def test_on_a_full_disk_who_is_told_that_it_was_written_finds_it_written(ledger: Ledger, folder: Path) -> None:
    set_limit(ledger, 4)
    with Held(ledger):
        futures = [
            ledger.submit(
                lambda connection, number=number: chain.append(  # type: ignore[misc]
                    connection, HOST, entry(number, text="x" * (60_000 if number % 3 == 1 else 10)), NOW
                )
            )
            for number in range(9)
        ]
    told = [number for number, future in enumerate(futures) if future.exception(10) is None]
    assert numbers(ledger) == told
    assert all(isinstance(future.exception(), (LedgerUnavailable, type(None))) for future in futures)
    assert len(told) < len(futures)
    assert verified(ledger)[1] == []


# The tables and the trail


def test_a_ledger_of_a_newer_program_is_refused_and_let_go(folder: Path) -> None:
    with opened(folder) as ledger:
        ledger.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(schema.SchemaError, match="newer"):
        opened(folder)


def test_long_or_odd_text_does_not_keep_a_row_out_of_the_trail(ledger: Ledger, folder: Path) -> None:
    odd = AuditEntry("a" * 500, "A" * 500, "t" * 500, label="l" * 500, task_id="t", details={"x": "\ud800\0"})
    ledger.audit(odd)
    (row,) = ledger.read(lambda connection: search(connection, AuditFilter()))
    assert [len(row[name]) for name in ("actor", "action", "target_id", "label")] == [128, 64, 64, 160]
    assert verified(ledger) == (1, [])


# Jobs and the outbox


def new_job(task_id: str = "t1", worker: str = "OrionMX", handler: str = "pause", seconds: float = 0) -> jobs.NewJob:
    filed_at = NOW + timedelta(seconds=seconds)
    return jobs.NewJob(task_id, worker, handler, {}, "hotfix", Issuer("cli:anna", "anna"), "cli", filed_at)


def file(ledger: Ledger, new: jobs.NewJob) -> Any:
    return ledger.write(lambda connection: jobs.file(connection, HOST, new, NOW))


def test_a_job_is_filed_once_for_each_worker_and_runs_through_its_states(ledger: Ledger) -> None:
    job = file(ledger, new_job())
    assert job.state is JobState.QUEUED
    assert file(ledger, new_job(handler="resume")) is None
    assert file(ledger, new_job(worker="West")) is not None
    finish = jobs.finish(job, Outcome.done(pid=7), NOW, 1.23456)
    assert not ledger.step(finish), "what was not started can't be done"
    for step in (jobs.claim(job, NOW), jobs.begin(job, NOW), finish):
        assert ledger.step(step)
        assert not ledger.step(step), "once"
    assert not ledger.step(jobs.interrupt(job, Outcome.failed("too late"), NOW))
    done = ledger.read(lambda connection: jobs.find(connection, "t1", "OrionMX"))
    assert done == replace(job, state=JobState.DONE, outcome=Outcome.done(pid=7), started_at=NOW, finished_at=NOW)
    (row,) = ledger.read(lambda connection: search(connection, AuditFilter()))
    assert (row["action"], row["outcome"], row["label"]) == ("PAUSE", "success", "anna - hotfix")
    assert json.loads(row["details_json"])["duration_seconds"] == 1.235
    assert ledger.read(lambda connection: count_pending(connection, jobs.RESULT_FILE)) == 1


def test_of_two_who_claim_one_job_one_gets_it(ledger: Ledger, folder: Path) -> None:
    job = file(ledger, new_job())
    with opened(folder) as other:
        assert [ledger.step(jobs.claim(job, NOW)), other.step(jobs.claim(job, NOW))] == [True, False]


def test_of_a_group_of_steps_each_answers_for_itself(ledger: Ledger) -> None:
    first, taken, broken, last = (file(ledger, new_job(f"t{number}")) for number in range(4))
    assert ledger.step(jobs.claim(taken, NOW))
    unsortable: Any = {1: "a", "b": 2}
    unwritable = replace(jobs.claim(broken, NOW), outbox=(Message("x", "x", unsortable),))
    several = [jobs.claim(first, NOW), jobs.claim(taken, NOW), unwritable, jobs.claim(last, NOW)]
    answers = ledger.try_steps(several)
    assert (answers[:2], answers[3]) == ([True, False], True)
    assert isinstance(answers[2], TypeError)


def test_jobs_run_by_tier_then_by_file_time_and_what_was_claimed_comes_first(ledger: Ledger) -> None:
    filed = [("d", "diagnostics", -9), ("p2", "pause", 2), ("p1", "resume", 1), ("c", "update_code", 5)]
    for task_id, handler, seconds in filed:
        file(ledger, new_job(task_id, handler=handler, seconds=seconds))

    def following() -> str:
        job = ledger.read(lambda connection: jobs.next_to_run(connection, "OrionMX"))
        assert job is not None
        return job.task_id

    order = ledger.read(lambda connection: jobs.waiting(connection, ["OrionMX"], (JobState.QUEUED,)))
    assert [job.task_id for job in order] == ["c", "p1", "p2", "d"]
    assert following() == "c"
    assert ledger.step(jobs.claim(order[3], NOW))
    assert following() == "d"
    assert ledger.read(lambda connection: jobs.next_to_run(connection, "West")) is None


def test_a_step_and_what_follows_from_it_are_written_together_or_not_at_all(ledger: Ledger) -> None:
    job = file(ledger, new_job())
    ledger.step(jobs.claim(job, NOW))
    ledger.step(jobs.begin(job, NOW))
    step = jobs.finish(job, Outcome.done(), NOW, 0)
    unsortable: Any = {1: "a", "b": 2}
    unwritable = replace(step, outbox=(Message("x", "x", unsortable),))
    with pytest.raises(TypeError):
        ledger.step(unwritable)
    unchanged = ledger.read(lambda connection: jobs.find(connection, "t1", "OrionMX"))
    assert unchanged is not None
    assert unchanged.state is JobState.STARTED
    assert numbers(ledger) == []
    assert ledger.step(step)


def test_what_waits_outside_is_due_in_order_and_later_each_time_it_fails(ledger: Ledger) -> None:
    messages = [Message("k", str(delay), {"n": delay}, delay_seconds=delay) for delay in (5, 0)]
    ledger.write(lambda connection: record(connection, HOST, None, messages, NOW))

    def due(seconds: float) -> list[outbox.PendingMessage]:
        return ledger.read(lambda connection: outbox.due_messages(connection, "k", NOW + timedelta(seconds=seconds)))

    assert [waiting.payload["n"] for waiting in due(5)] == [0, 5]
    (first,) = due(0)
    delays = []
    for _ in range(9):
        ledger.write(lambda connection: outbox.postpone(connection, first, "away", NOW))  # noqa: B023
        (first,) = [waiting for waiting in due(10**6) if waiting.outbox_id == first.outbox_id]
        row = ledger.read(lambda c: c.execute(text("SELECT due_at FROM outbox_t ORDER BY outbox_id DESC")).scalar())
        delays.append((datetime.fromisoformat(str(row)) - NOW).total_seconds())
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert ledger.step(outbox.mark_sent(first, NOW))
    assert not ledger.step(outbox.mark_sent(first, NOW))
    assert [waiting.payload["n"] for waiting in due(10**6)] == [5]


def test_writes_from_many_threads_are_all_there(ledger: Ledger, folder: Path) -> None:
    def many(first: int) -> None:
        for number in range(first, first + 20):
            ledger.audit(entry(number))

    threads = [threading.Thread(target=many, args=(place * 100,)) for place in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: not any(thread.is_alive() for thread in threads), 30, "all have written")
    assert verified(ledger) == (120, [])


def test_whoever_listens_hears_of_the_kinds_that_they_named_and_of_all_where_they_named_none(ledger: Ledger) -> None:
    heard: list[str] = []
    with ledger.listening(lambda: heard.append("any")), ledger.listening(lambda: heard.append("cards"), ("card", "x")):
        ledger.order([Message("home", "U1", {})])
        ledger.order([Message("card", "t1", {}), Message("home", "U1", None)])
        ledger.audit(entry())
    ledger.order([Message("card", "t1", None)])
    assert heard == ["any", "any", "cards"]


WRITE_ELSEWHERE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
row = ("Other", "x", "{}", "received", "2026")
columns = "key, kind, payload_json, state, received_at"
connection.execute(f"INSERT INTO envelopes_t ({columns}) VALUES (?, ?, ?, ?, ?)", row)
connection.commit()
connection.close()
"""


def test_a_ledger_that_is_opened_twice_in_one_process_sees_what_others_write(folder: Path, ledger: Ledger) -> None:
    """Closing any descriptor of the file would drop this process's locks on it, and the next program to close the
    ledger would take the write-ahead log away from under us."""
    ledger.write(lambda connection: chain.append(connection, HOST, entry(), NOW))
    with opened(folder):
        pass
    subprocess.run([sys.executable, "-c", WRITE_ELSEWHERE, str(folder / LEDGER_FILE)], check=True)
    assert ledger.read(lambda connection: connection.execute(select(envelopes.c.key)).scalars().all()) == ["Other"]
    ledger.write(lambda connection: chain.append(connection, HOST, entry(1), NOW))
    with opened(folder) as again:
        assert len(again.read(lambda connection: connection.execute(select(audit_log.c.audit_id)).all())) == 2
