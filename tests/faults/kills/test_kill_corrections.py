"""`kill -9` of the daemon in the middle of a correction: the next one corrects the command, once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jobs.test_corrections import COMMAND, GRACE_SECONDS, corrected, ends, resume
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed

CORRECTS = "jobs_t.done:before#2"
"""The first time is that of the resume."""

POINTS = (CORRECTS, f"{CORRECTS}>audit.head:before", f"{CORRECTS}>audit.head:after", "jobs_t.done:after#2")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Its worker is paused, and ends as soon as it's told that it's broken."""
    worker = {
        "command": COMMAND,
        "start_grace_seconds": GRACE_SECONDS,
        "heartbeat_max_age_seconds": 0,
        "restart": {"policy": "never"},
    }
    with a_home(tmp_path / "home", {"OrionMX": worker}) as made:
        (made.nas / "00_STATE").mkdir(parents=True, exist_ok=True)
        (made.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").touch()
        yield made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", POINTS)
def test_killed_while_it_corrects_a_command_the_next_one_has_corrected_it_once(home: Home, point: str) -> None:
    daemon = home.start_daemon(program=armed(point))
    task_id = resume(home)["task_id"]
    (home.folder / "broken").touch()
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    written = ends(home, task_id)
    assert len(written) == (1 if point == CORRECTS else 2)
    home.start_daemon()
    result = corrected(home, task_id)
    assert result["error"].endswith("it broke"), "its last words"
    assert not home.everybody()
    assert home.supervisor("audit", "verify").returncode == 0
