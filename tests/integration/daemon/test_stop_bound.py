"""The stop of a daemon: it has as long as any command in hand may take, and what is ignored asks for none."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from supervisor_core.code.git.changes import OPERATION_SECONDS
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.common.service import CANCEL_SECONDS
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.control.client import ask
from supervisor_core.daemon.daemon import STOP_MARGIN_SECONDS
from supervisor_core.daemon.handlers import (
    BOUNDS,
    CODE_OPERATIONS,
    HANDLERS,
    LONGEST_STOP_SECONDS,
    MOST_TAKEN_BACK,
    longest_seconds,
    stop_limit_seconds,
)
from supervisor_core.diagnosis.reports.handlers import PART_SECONDS
from supervisor_core.storage.database_check import WHOLE_SECONDS
from tests.support.homes import ROOT, SUPERVISOR, Home, a_home

USUAL = {"OrionMX": {"command": ["{python}", "-V"]}}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def configured(folder: Path, **worker: float | str) -> SupervisorConfig:
    path = folder / "config.yaml"
    workers = {"OrionMX": {**USUAL["OrionMX"], **worker}, "West": USUAL["OrionMX"]}
    path.write_text(yaml.safe_dump({"nas": {"root": "nas", "layout": "cornerstone"}, "workers": workers}))
    return load_supervisor_config(path, environ={})


def test_every_handler_has_its_bound() -> None:
    assert set(BOUNDS) == set(HANDLERS)


def test_a_stop_leaves_time_for_a_report_in_hand(home: Home) -> None:
    daemon = home.start_daemon()
    told = ask(str(home.state_dir), {"do": "stop"})
    assert max(WHOLE_SECONDS, PART_SECONDS) < told["bound_seconds"] <= LONGEST_STOP_SECONDS + STOP_MARGIN_SECONDS
    assert daemon.wait(20) == 0, home.daemon_log()


def test_a_daemon_that_was_started_with_nohup_outlives_its_terminal(home: Home) -> None:
    daemon = home.start_daemon(program=("sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *SUPERVISOR))
    daemon.send_signal(signal.SIGHUP)
    assert home.status()["supervisor"]["pid"] == daemon.pid
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0
    assert "received SIGTERM, stopping" in home.daemon_log()
    assert "received SIGHUP" not in home.daemon_log()


def test_the_worker_that_takes_longest_counts(tmp_path: Path) -> None:
    config = configured(tmp_path, stop_timeout_seconds=300, start_grace_seconds=20)
    assert longest_seconds(config) > 320


def test_a_rollback_of_as_many_commits_as_may_be_counts(tmp_path: Path) -> None:
    most = next(each.high for each in CATALOG["rollback"].parameters if each.name == "commits_back")
    assert most == MOST_TAKEN_BACK
    worker = configured(tmp_path).worker("OrionMX")
    assert BOUNDS["rollback_code"](worker) > (2 * MOST_TAKEN_BACK + CODE_OPERATIONS) * OPERATION_SECONDS


def test_an_undo_may_take_as_long_as_pip_may(tmp_path: Path) -> None:
    worker = configured(tmp_path).worker("OrionMX")
    assert BOUNDS["undo_code"](worker) > 2 * worker.code.pip_timeout_seconds


def test_several_installations_for_one_folder_go_one_after_the_other(tmp_path: Path) -> None:
    one = longest_seconds(configured(tmp_path))
    assert longest_seconds(configured(tmp_path, python="venv/bin/python")) >= one + 3 * 600


def test_the_service_in_the_docs_leaves_that_time(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "units" / "supervisor-chatops.service").read_text()
    found = re.search(r"^TimeoutStopSec=(\d+)$", page, re.MULTILINE)
    assert found
    slow = configured(tmp_path, stop_timeout_seconds=2000)
    longest = stop_limit_seconds(slow) + STOP_MARGIN_SECONDS + CANCEL_SECONDS
    assert int(found[1]) >= longest
