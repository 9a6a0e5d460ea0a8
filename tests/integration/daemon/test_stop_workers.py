"""`supervisor stop --workers` where one of them can't be looked at: the others are ended, and that is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.daemon.control.client import ask
from supervisor_core.daemon.ownership import daemon_holder
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.waiting import wait_until

NAMES = ("Alfa", "Bravo", "Charlie")
"""The one in the middle is in trouble: one comes before it, and one after."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    with a_home(tmp_path / "home", dict.fromkeys(NAMES, SLEEPER), make=Host) as made:
        assert isinstance(made, Host)
        yield made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("daemon", [True, False], ids=["by the daemon", "without one"])
def test_one_whose_record_can_not_be_read_keeps_no_other_from_being_ended(home: Host, daemon: bool) -> None:
    home.started()
    pids = home.all_run()
    if not daemon:
        assert home.supervisor("stop").returncode == 0
    record = home.state_dir / "workers" / "Bravo.json"
    kept = record.read_bytes()
    record.write_bytes(b"no record")
    if daemon:
        bravo = home.worker("Bravo")
        assert (bravo["fine"], str(record) in bravo["reason"]) == (False, True), bravo
    try:
        done = home.supervisor("stop", "--workers")
    finally:
        record.write_bytes(kept)  # so that it is found, and ended, when this is over
    assert home.everybody() == [pids["Bravo"]]
    assert done.returncode == 1
    assert daemon_holder(home.state_dir) is None
    assert ("some of its workers couldn't be stopped" in done.stdout) is daemon
    first, *others = done.stdout.splitlines()
    assert first.startswith("Stopped: ") is daemon
    assert len(others) == 1
    assert others[0].startswith("  Bravo couldn't be stopped: ")
    assert done.stderr == ""


def test_a_daemon_that_can_not_end_one_of_them_ends_in_good_order_all_the_same(home: Host) -> None:
    home.started()
    pids = home.all_run()
    record = home.state_dir / "workers" / "Bravo.json"
    kept = record.read_bytes()
    record.write_bytes(b"no record")
    try:
        ask(str(home.state_dir), {"do": "stop", "workers": True})
        wait_until(lambda: daemon_holder(home.state_dir) is None, 30, "the daemon is gone")
    finally:
        record.write_bytes(kept)
    assert home.everybody() == [pids["Bravo"]]
    assert "Bravo couldn't be stopped" in home.log()
    assert json.loads((home.state_dir / "runtime.json").read_text())["running"] is False
