"""The shared database away, killed, frozen, slow, and we ourselves killed in the middle: every row is there once."""

from __future__ import annotations

import gc
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.daemon.replication import replicator as forward_module
from supervisor_core.daemon.replication.connection import DatabaseUnavailable
from supervisor_core.daemon.replication.replicator import Replicator
from supervisor_core.storage.store import Ledger
from tests.support.homes import Home, a_home
from tests.support.storage import database_servers as servers
from tests.support.storage.forwarded_rows import (
    assert_equal,
    at,
    bring_all,
    do_job,
    forward,
    forwarded,
    forwarding,
    note_audit,
    opened,
    shared,
)
from tests.support.waiting import wait_until

SECONDS = 1.0
"""The time limit of a query in these tests."""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path / "var") as made:
        yield made


def service(home: Home) -> dict[str, Any]:
    return next(each for each in home.status()["services"] if each["name"] == "forwarder")


def home_with(tmp_path: Path, url: str, workers: dict[str, Any] | None = None) -> Any:
    database = {"url": url, "query_timeout_seconds": SECONDS}
    return a_home(tmp_path / "home", workers=workers, database=database)


# The server


@pytest.mark.sampled(1)
def test_while_it_is_away_all_goes_on_and_what_waits_comes_when_it_is_back(
    server: servers.Server, url: str, tmp_path: Path
) -> None:
    with home_with(tmp_path, url) as home:
        server.stop()
        home.start_daemon()
        for number in range(5):
            assert home.json("send", "pause" if number % 2 else "resume", "--wait")["success"]
        wait_until(lambda: "10 rows waiting" in service(home)["reason"], 20, "all that waits is counted")
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


@pytest.mark.sampled(1)
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
        wait_until(lambda: "3 rows waiting" in service(home)["reason"], 20, "it says how many wait")


@pytest.mark.sampled(1)
def test_killed_before_its_commit_it_has_nothing_of_the_batch_and_gets_all_of_it(
    server: servers.Server, url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_job(ledger, "t1")
    forward(ledger, url)
    for number in range(2, 60):
        do_job(ledger, f"t{number}")
    at(monkeypatch, "forward.commit:before", server.kill)
    with pytest.raises(DatabaseUnavailable):
        forward(ledger, url)
    server.start()
    wait_until(lambda: forwarded(ledger, url), 30, "it is brought")
    assert_equal(ledger, url)


# PyMySQL leaves it to the garbage collector to close what a server that is killed did not even greet.
@pytest.mark.sampled(1)
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
        with forwarding(ledger, url, SECONDS) as made, pytest.raises(DatabaseUnavailable):
            write_and_bring(ledger, made)
        timer.join()
        server.start()
    wait_until(lambda: forwarded(ledger, url), 30, "the rest is brought")
    assert_equal(ledger, url)
    gc.collect()


def write_and_bring(ledger: Ledger, made: Replicator) -> None:
    """Until it can't be done any more."""
    while True:
        note_audit(ledger, 1)
        bring_all(made)


@pytest.mark.sampled(1)
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
    with forwarding(ledger, url, SECONDS) as made, pytest.raises(DatabaseUnavailable):
        bring_all(made)
    assert time.monotonic() - begun < 15, "connecting has 5 s, a query 1 s here, and closing one more"
    server.thaw()
    wait_until(lambda: forwarded(ledger, url), 30, "it is brought")
    assert_equal(ledger, url)


@pytest.mark.sampled(1)
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
        assert "didn't stop" not in home.daemon_log()


@pytest.mark.sampled(1)
def test_somebody_who_holds_the_rows_keeps_us_waiting_no_longer_than_a_query_may_take(
    server: servers.Server, url: str, ledger: Ledger
) -> None:
    from sqlalchemy import select

    from supervisor_core.storage.tables import forwarding as marks

    do_job(ledger, "t1")
    forward(ledger, url)
    do_job(ledger, "t2")
    with shared(url) as engine, engine.begin() as there:
        there.execute(select(marks).with_for_update()).all()
        begun = time.monotonic()
        with forwarding(ledger, url, SECONDS) as made, pytest.raises(DatabaseUnavailable):
            bring_all(made)
        assert time.monotonic() - begun < 10
    assert forward(ledger, url) == 2
    assert_equal(ledger, url)


# A shared SQLite


def test_a_shared_file_that_somebody_has_locked_is_waited_for_and_given_up(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "shared.db"
    url = f"sqlite:///{path}"
    do_job(ledger, "t1")
    forward(ledger, url)
    do_job(ledger, "t2")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with forwarding(ledger, url, 0.2) as made, pytest.raises(DatabaseUnavailable, match="locked"):
        bring_all(made)
    holder.execute("ROLLBACK")
    holder.close()
    assert forward(ledger, url) == 2
    assert_equal(ledger, url)


def test_a_shared_file_in_a_folder_that_is_not_there_yet(tmp_path: Path, ledger: Ledger) -> None:
    url = f"sqlite:///{tmp_path}/mounted/later/shared.db"
    do_job(ledger, "t1")
    with pytest.raises(DatabaseUnavailable, match="unable to open"):
        forward(ledger, url)
    (tmp_path / "mounted" / "later").mkdir(parents=True)
    assert forward(ledger, url) == 2
    assert_equal(ledger, url)


# We ourselves


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["forward.commit:before", "forward.commit:after"])
def test_a_daemon_killed_around_the_commit_brings_each_row_once(tmp_path: Path, database_url: str, point: str) -> None:
    with home_with(tmp_path, database_url, workers={}) as home:
        with opened(home.state_dir) as ledger:
            for number in range(700):
                note_audit(ledger, number)
        for times in (1, 2):  # in the first batch, then in the one that goes on from there
            armed = (sys.executable, "-m", "tests.support.programs.armed", point)
            daemon = home.start_daemon(program=armed, wait=False)
            assert daemon.wait(30) == -signal.SIGKILL, f"{times}: {home.daemon_log()}"
        home.start_daemon()
        with opened(home.state_dir) as ledger:
            with forwarding(ledger, database_url) as made:
                wait_until(lambda: made.waiting() == 0 or forwarded(ledger, database_url), 20, "all rows are there")
            assert_equal(ledger, database_url)
        said = home.supervisor("audit", "verify", "--shared")
        assert said.returncode == 0, said.stdout
