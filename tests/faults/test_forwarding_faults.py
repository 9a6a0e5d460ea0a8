"""The shared database away, killed, frozen, slow, and we ourselves killed in the middle: every row is there once."""

from __future__ import annotations

import gc
import logging
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import NullPool, create_engine, text

from supervisor_core.config import SupervisorConfig, load_supervisor_config
from supervisor_core.domain import crashpoints
from supervisor_core.ledger import forward as forward_module
from supervisor_core.ledger import schema
from supervisor_core.ledger.forward import Forwarding
from supervisor_core.ledger.forward_database import DatabaseAway
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime import forwarding as rounds
from tests.support import databases, servers
from tests.support.forwarded import (
    assert_equal,
    beat,
    bring_all,
    do_job,
    file_job,
    forward,
    forwarding,
    go_on,
    note_audit,
    opened,
    shared,
)
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until

SERVERS = ("mariadb", "postgresql")
SECONDS = 1.0
"""The time limit of a query in these tests."""


@pytest.fixture(scope="module", params=SERVERS)
def any_server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.KINDS[request.param]() as made:
        yield made


@pytest.fixture
def server(any_server: servers.Server) -> Iterator[servers.Server]:
    """A server that runs when the test begins, and after it, whatever the test did to it."""
    any_server.thaw()
    any_server.start()
    yield any_server
    any_server.thaw()
    any_server.start()


@pytest.fixture
def url(server: servers.Server) -> Iterator[str]:
    """A new, empty database on that server."""
    with databases.new_database(server.url) as made:
        yield made
        server.thaw()
        server.start()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path / "var") as made:
        yield made


def at(monkeypatch: pytest.MonkeyPatch, point: str, what: Callable[[], object]) -> None:
    """Do something the first time that this point is passed."""
    done = threading.Event()

    def reach(name: str) -> None:
        if name == point and not done.is_set():
            done.set()
            what()

    monkeypatch.setattr(crashpoints, "reach", reach)


def service(home: Home) -> dict[str, Any]:
    return next(each for each in home.status()["services"] if each["name"] == "forwarder")


def home_with(tmp_path: Path, url: str, workers: dict[str, Any] | None = None) -> Any:
    database = {"url": url, "query_timeout_seconds": SECONDS}
    return a_home(tmp_path / "home", workers=workers, database=database)


# The server


def test_while_it_is_away_all_goes_on_and_what_waits_comes_when_it_is_back(
    server: servers.Server, url: str, tmp_path: Path
) -> None:
    with home_with(tmp_path, url) as home:
        server.stop()
        home.start_daemon()
        for number in range(5):
            assert home.json("send", "pause" if number % 2 else "resume", "--wait")["success"]
        wait_until(lambda: "10 rows wait" in service(home)["reason"], 20, "all that waits is counted")
        said = service(home)
        assert (said["state"], said["health"]) == ("running", "degraded")
        assert "The shared database" in said["reason"]
        assert home.supervisor("status").returncode == 1
        assert home.supervisor("audit", "verify").returncode == 0
        asked = home.supervisor("audit", "verify", "--shared")
        assert asked.returncode == 1
        assert "can't be used" in asked.stderr
        server.start()
        wait_until(lambda: service(home)["health"] == "healthy", 70, "the forwarder is well")
        with opened(home.state_dir) as ledger, forwarding(ledger, url) as made:
            wait_until(lambda: made.waiting() == 0, 20, "all rows are there")
            assert_equal(ledger, url)


def test_a_daemon_started_while_it_is_away_says_how_much_has_waited_since_the_last_one(
    server: servers.Server, url: str, tmp_path: Path
) -> None:
    with home_with(tmp_path, url, workers={}) as home:
        with opened(home.state_dir) as ledger:
            do_job(ledger, "t1")
            forward(ledger, url)
            server.stop()
            for number in range(3):
                note_audit(ledger, number)
        home.start_daemon()
        wait_until(lambda: "3 rows wait" in service(home)["reason"], 20, "it says how many wait")


def test_killed_before_its_commit_it_has_nothing_of_the_batch_and_gets_all_of_it(
    server: servers.Server, url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_job(ledger, "t1")
    forward(ledger, url)
    for number in range(2, 60):
        do_job(ledger, f"t{number}")
    at(monkeypatch, "forward.commit:before", server.kill)
    with pytest.raises(DatabaseAway):
        forward(ledger, url)
    server.start()
    wait_until(lambda: forwarded(ledger, url), 30, "it is brought")
    assert_equal(ledger, url)


# PyMySQL leaves it to the garbage collector to close what a server that is killed did not even greet.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_killed_again_and_again_while_rows_come_and_go(
    server: servers.Server, url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_module, "BATCH_ROWS", 20)
    for number in range(100):
        do_job(ledger, f"t{number}")
    for delay in (0.01, 0.03, 0.05, 0.1, 0.2):
        timer = threading.Timer(delay, server.kill)
        timer.start()
        with forwarding(ledger, url, SECONDS) as made, pytest.raises(DatabaseAway):
            write_and_bring(ledger, made)
        timer.join()
        server.start()
    wait_until(lambda: forwarded(ledger, url), 30, "the rest is brought")
    assert_equal(ledger, url)
    gc.collect()


def write_and_bring(ledger: Ledger, made: Forwarding) -> None:
    """Until it can't be done any more."""
    while True:
        note_audit(ledger, 1)
        bring_all(made)


def forwarded(ledger: Ledger, url: str) -> bool:
    """Try once; a server that has just come up may still refuse."""
    try:
        forward(ledger, url)
    except DatabaseAway:
        return False
    return True


@pytest.mark.parametrize("point", ["connect", "forward.commit:before"])
def test_frozen_it_is_given_up_within_bounds_and_has_all_once_when_it_goes_on(
    server: servers.Server, url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    do_job(ledger, "t1")
    forward(ledger, url)
    do_job(ledger, "t2")
    if point == "connect":
        server.freeze()
    at(monkeypatch, point, server.freeze)
    begun = time.monotonic()
    with forwarding(ledger, url, SECONDS) as made, pytest.raises(DatabaseAway):
        bring_all(made)
    assert time.monotonic() - begun < 15, "connecting has 5 s, a query 1 s here, and closing one more"
    server.thaw()
    wait_until(lambda: forwarded(ledger, url), 30, "it is brought")
    assert_equal(ledger, url)


def test_frozen_it_keeps_no_daemon_from_stopping_in_good_order(
    server: servers.Server, url: str, tmp_path: Path
) -> None:
    with home_with(tmp_path, url, workers={}) as home:
        daemon = home.start_daemon()
        wait_until(lambda: service(home)["health"] == "healthy", 20)
        server.freeze()
        wait_until(lambda: service(home)["health"] == "degraded", 40, "it is seen to be frozen")
        begun = time.monotonic()
        assert home.supervisor("stop").returncode == 0, home.daemon_log()
        assert daemon.wait(10) == 0
        assert time.monotonic() - begun < 10
        assert "did not stop" not in home.daemon_log()


def test_somebody_who_holds_the_rows_keeps_us_waiting_no_longer_than_a_query_may_take(
    server: servers.Server, url: str, ledger: Ledger
) -> None:
    from sqlalchemy import select

    from supervisor_core.ledger.tables import forwarding as marks

    do_job(ledger, "t1")
    forward(ledger, url)
    do_job(ledger, "t2")
    with shared(url) as engine, engine.begin() as there:
        there.execute(select(marks).with_for_update()).all()
        begun = time.monotonic()
        with forwarding(ledger, url, SECONDS) as made, pytest.raises(DatabaseAway):
            bring_all(made)
        assert time.monotonic() - begun < 10
    assert forward(ledger, url) == 2
    assert_equal(ledger, url)


# The pass


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
    assert "The shared database said nothing in" in done.problem
    assert "2 rows wait" in caplog.text
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
    assert "1 row waits" in caplog.text


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
    assert "The shared database was not upgraded in" in done.problem
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
    done = rounds.forward_now(a_config(tmp_path, database_url), ledger, seconds=0.5)
    go_on_.set()
    assert "did not take all" in done.problem
    assert done.waiting >= 49
    wait_until(lambda: forwarded(ledger, database_url), 30, "the rest is brought")
    assert_equal(ledger, database_url)


# A shared SQLite


def test_a_shared_file_that_somebody_has_locked_is_waited_for_and_given_up(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "shared.db"
    url = f"sqlite:///{path}"
    do_job(ledger, "t1")
    forward(ledger, url)
    do_job(ledger, "t2")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with forwarding(ledger, url, 0.2) as made, pytest.raises(DatabaseAway, match="locked"):
        bring_all(made)
    holder.execute("ROLLBACK")
    holder.close()
    assert forward(ledger, url) == 2
    assert_equal(ledger, url)


def test_a_shared_file_in_a_folder_that_is_not_there_yet(tmp_path: Path, ledger: Ledger) -> None:
    url = f"sqlite:///{tmp_path}/mounted/later/shared.db"
    do_job(ledger, "t1")
    with pytest.raises(DatabaseAway, match="unable to open"):
        forward(ledger, url)
    (tmp_path / "mounted" / "later").mkdir(parents=True)
    assert forward(ledger, url) == 2
    assert_equal(ledger, url)


# We ourselves


@pytest.mark.parametrize("point", ["forward.commit:before", "forward.commit:after"])
def test_a_daemon_killed_around_the_commit_brings_each_row_once(tmp_path: Path, database_url: str, point: str) -> None:
    with home_with(tmp_path, database_url, workers={}) as home:
        with opened(home.state_dir) as ledger:
            for number in range(700):
                note_audit(ledger, number)
        for times in (1, 2):  # in the first batch, then in the one that goes on from there
            armed = (sys.executable, "-m", "tests.support.armed", point)
            daemon = home.start_daemon(program=armed, wait=False)
            assert daemon.wait(30) == -signal.SIGKILL, f"{times}: {home.daemon_log()}"
        home.start_daemon()
        with opened(home.state_dir) as ledger:
            with forwarding(ledger, database_url) as made:
                wait_until(lambda: made.waiting() == 0 or forwarded(ledger, database_url), 20, "all rows are there")
            assert_equal(ledger, database_url)
        said = home.supervisor("audit", "verify", "--shared")
        assert said.returncode == 0, said.stdout


# Whatever happens in whatever order

IDS = st.integers(0, 3)
OPERATIONS = st.one_of(
    st.tuples(st.just("file"), IDS),
    st.tuples(st.just("go on"), IDS),
    st.tuples(st.just("note"), IDS),
    st.tuples(st.just("beat"), st.integers(0, 20)),
    st.tuples(st.just("forward"), st.just(0)),
    st.tuples(st.just("fail before the commit"), st.integers(1, 3)),
    st.tuples(st.just("fail after the commit"), st.integers(1, 3)),
    st.tuples(st.just("open again"), st.just(0)),
)


class FailedHere(Exception):
    """What a kill would be."""


class History:
    """A ledger, a shared database, and what happens to them."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self.ledger = opened(folder)
        self._number = 0

    def do(self, what: str, number: int) -> None:
        self._number += 1
        if what == "file":
            file_job(self.ledger, f"t{number}")
        elif what == "go on":
            file_job(self.ledger, f"t{number}")
            go_on(self.ledger, f"t{number}")
        elif what == "note":
            note_audit(self.ledger, number)
        elif what == "beat":
            beat(self.ledger, f"W{number % 2}", self._number, f"s{number}")
        elif what == "open again":
            self.ledger.close()
            self.ledger = opened(self._folder)
        elif what == "forward":
            forward(self.ledger, self._url)
        else:
            self._fail(f"forward.commit:{what.split()[1]}", number)

    def _fail(self, point: str, left: int) -> None:
        before = crashpoints.reach

        def reach(name: str) -> None:
            nonlocal left
            left -= name == point
            if name == point and left == 0:
                raise FailedHere

        crashpoints.reach = reach
        try:
            forward(self.ledger, self._url)
        except FailedHere:
            pass
        finally:
            crashpoints.reach = before


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, max_size=25))
def test_however_changes_forwards_and_failures_follow_each_other_the_rows_end_equal(
    database_url: str, tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    with shared(database_url) as engine, engine.begin() as there:
        from sqlalchemy import inspect

        from supervisor_core.ledger.tables import metadata

        for table in metadata.tables.values():
            if inspect(there).has_table(table.name):
                there.execute(table.delete())
    history = History(folder / "var", database_url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_module, "BATCH_ROWS", 2)
        try:
            for what, number in operations:
                history.do(what, number)
            forward(history.ledger, database_url)
            assert_equal(history.ledger, database_url)
            assert forward(history.ledger, database_url) == 0
        finally:
            history.ledger.close()
