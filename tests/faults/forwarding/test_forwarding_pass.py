"""A pass brings what is new within its bounds, whatever the shared database does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, text

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.replication import replicator as forward_module
from supervisor_core.daemon.replication import rounds
from supervisor_core.storage import schema
from supervisor_core.storage.store import Ledger
from tests.support.storage import database_servers as servers
from tests.support.storage.forwarded_rows import assert_equal, at, do_job, forward, forwarded, note_audit, opened
from tests.support.waiting import wait_until


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path / "var") as made:
        yield made


def a_config(tmp_path: Path, url: str) -> SupervisorConfig:
    path = tmp_path / "config.yaml"
    path.write_text(f"supervisor: {{state_dir: var, id: TestHost}}\ndatabase: {{url: '{url}'}}\n")
    return load_supervisor_config(path, environ={})


def test_a_pass_brings_what_is_new(tmp_path: Path, ledger: Ledger, database_url: str) -> None:
    do_job(ledger, "t1")
    done = rounds.forward_now(a_config(tmp_path, database_url), ledger)
    assert (done.rows, done.waiting, done.problem) == (2, 0, "")
    assert_equal(ledger, database_url)


def test_a_pass_waits_for_a_frozen_database_no_longer_than_a_moment(
    server: servers.Server, url: str, tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    do_job(ledger, "t1")
    server.freeze()
    begun = time.monotonic()
    done = rounds.forward_now(a_config(tmp_path, url), ledger)
    assert time.monotonic() - begun < rounds.ANSWER_SECONDS + 2
    assert (done.rows, done.waiting) == (0, 2)
    assert "The shared database didn't respond in" in done.problem
    assert "2 rows waiting" in caplog.text
    server.thaw()
    wait_until(lambda: forwarded(ledger, url), 30, "it is brought")
    assert_equal(ledger, url)


def test_a_pass_is_not_held_up_by_a_database_that_is_not_there(
    tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    note_audit(ledger, 1)
    done = rounds.forward_now(a_config(tmp_path, "postgresql+psycopg://u:p@127.0.0.1:1/d"), ledger)
    assert (done.rows, done.waiting) == (0, 1)
    assert "can't be used" in done.problem
    assert "1 row waiting" in caplog.text


UPGRADE_LOCK = {
    "mysql": "SELECT GET_LOCK('supervisor_schema', 0)",
    "postgresql": f"SELECT pg_advisory_xact_lock({schema.UPGRADE_LOCK})",
}


@contextmanager
def upgrade_under_way(url: str) -> Iterator[Callable[[], None]]:
    """Somebody else upgrades the database; yields what ends it."""
    engine = create_engine(url, poolclass=NullPool)  # MariaDB lets go of the lock when the connection is closed
    with engine.connect() as there:
        there.execute(text(UPGRADE_LOCK[engine.dialect.name]))
        yield there.close


def test_a_pass_gives_an_upgrade_more_time_than_a_database_that_says_nothing(
    url: str, tmp_path: Path, ledger: Ledger
) -> None:
    do_job(ledger, "t1")
    over = rounds.ANSWER_SECONDS + 0.5
    with upgrade_under_way(url) as end:
        timer = threading.Timer(over, end)
        timer.start()
        done = rounds.forward_now(a_config(tmp_path, url), ledger, seconds=rounds.ANSWER_SECONDS)
        timer.join()
    assert (done.rows, done.waiting, done.problem) == (2, 0, "")
    assert_equal(ledger, url)


def test_a_pass_leaves_an_upgrade_that_takes_too_long_for_the_next(
    url: str, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "UPGRADE_SECONDS", 0.1)
    do_job(ledger, "t1")
    with upgrade_under_way(url):
        done = rounds.forward_now(a_config(tmp_path, url), ledger, seconds=rounds.ANSWER_SECONDS)
    assert (done.rows, done.waiting) == (0, 2)
    assert "The shared database wasn't upgraded in" in done.problem
    wait_until(lambda: forwarded(ledger, url), 30, "it is brought")
    assert_equal(ledger, url)


def test_a_pass_that_has_more_than_fits_leaves_the_rest_for_the_next(
    tmp_path: Path, ledger: Ledger, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_module, "BATCH_ROWS", 1)
    for number in range(50):
        note_audit(ledger, number)
    forward(ledger, database_url)
    for number in range(50):
        note_audit(ledger, number)
    go_on_ = threading.Event()
    at(monkeypatch, "forward.commit:after", lambda: go_on_.wait(20))
    seconds = 3  # a busy machine takes a second for the first row
    done = rounds.forward_now(a_config(tmp_path, database_url), ledger, seconds)
    go_on_.set()
    assert "didn't accept all rows" in done.problem
    assert done.waiting >= 49
    wait_until(lambda: forwarded(ledger, database_url), 30, "the rest is brought")
    assert_equal(ledger, database_url)
