"""The stop of a daemon: it has as long as any command in hand may take, and what is ignored asks for none."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.service import CANCEL_SECONDS
from supervisor_core.daemon.app import STOP_MARGIN_SECONDS
from supervisor_core.daemon.control.client import ask
from supervisor_core.daemon.handlers import STOP_LIMIT_SECONDS
from supervisor_core.diagnosis.reports.handlers import PART_SECONDS
from supervisor_core.storage.database_check import WHOLE_SECONDS
from tests.support.homes import ROOT, SUPERVISOR, Home, a_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def test_a_stop_leaves_time_for_a_report_in_hand(home: Home) -> None:
    daemon = home.start_daemon()
    told = ask(str(home.state_dir), {"do": "stop"})
    assert max(WHOLE_SECONDS, PART_SECONDS) < told["bound_seconds"] <= STOP_LIMIT_SECONDS + STOP_MARGIN_SECONDS
    assert daemon.wait(20) == 0, home.daemon_log()


def test_a_daemon_that_was_started_with_nohup_outlives_its_terminal(home: Home) -> None:
    daemon = home.start_daemon(program=("sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *SUPERVISOR))
    daemon.send_signal(signal.SIGHUP)
    assert home.status()["supervisor"]["pid"] == daemon.pid
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0
    assert "received SIGTERM, stopping" in home.daemon_log()
    assert "received SIGHUP" not in home.daemon_log()


def test_the_service_in_the_docs_leaves_that_time() -> None:
    page = (ROOT / "docs" / "units" / "supervisor-chatops.service").read_text()
    found = re.search(r"^TimeoutStopSec=(\d+)$", page, re.MULTILINE)
    assert found
    longest = STOP_LIMIT_SECONDS + STOP_MARGIN_SECONDS + CANCEL_SECONDS
    assert int(found[1]) >= longest
