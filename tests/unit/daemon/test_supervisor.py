"""The supervisor of one worker, its parts by the names that readers of the requirements look for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.commands.labels import validate_label
from supervisor_core.common.errors import ConfigError, UsageError
from supervisor_core.daemon.ownership import BusyError, pass_ownership
from supervisor_core.daemon.single_pass import Supervisor
from supervisor_core.workers.heartbeats.files import (
    get_heartbeat_age_seconds,
    read_heartbeat_file,
    read_watcher_heartbeat,
)
from supervisor_core.workers.pauses import is_watcher_paused
from supervisor_core.workers.worker import start_watcher
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(made.folder)
        (made.nas / "00_STATE").mkdir()
        made.state_dir.mkdir(mode=0o700)
        yield made


def test_supervisor_init_success(home: Home) -> None:
    supervisor = Supervisor(home.config, "OrionMX")
    assert supervisor.worker.id == "OrionMX"
    assert supervisor.config.path == home.config
    assert supervisor.config.supervisor.id == "TestHost"
    assert supervisor.findings.succeeded
    assert Supervisor(str(home.config)).worker.id == "OrionMX", "the only worker is meant"


def test_supervisor_init_missing_config(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml doesn't exist"):
        Supervisor(home.folder / "nowhere.yaml", "OrionMX")


def test_supervisor_init_bad_config(home: Home) -> None:
    home.config.write_text(home.config.read_text().replace("workers:", "workrs:"))
    with pytest.raises(ConfigError, match=r"workrs.*workers"):
        Supervisor(home.config, "OrionMX")


def test_supervisor_init_unknown_worker(home: Home) -> None:
    with pytest.raises(UsageError, match="Did you mean OrionMX"):
        Supervisor(home.config, "OrionMXX")


def test_check_watcher_health_running(home: Home) -> None:
    supervisor = Supervisor(home.config, "OrionMX")
    identity = start_watcher(supervisor.host, supervisor.worker)
    wait_until(lambda: read_watcher_heartbeat(home.nas / "00_STATE", "OrionMX"), 10, "the worker beats")
    seen = supervisor.check_watcher_health()
    assert (seen["state"], seen["health"], seen["running"], seen["healthy"]) == ("running", "healthy", True, True)
    assert seen["pid"] == identity.pid
    assert "heartbeat" in seen["reason"]


def test_check_watcher_health_not_running(home: Home) -> None:
    seen = Supervisor(home.config, "OrionMX").check_watcher_health()
    assert (seen["state"], seen["health"], seen["running"], seen["healthy"]) == ("stopped", "missing", False, False)
    assert seen["pid"] is None
    assert "not running" in seen["reason"]


def test_read_heartbeat_file_valid(tmp_path: Path) -> None:
    path = tmp_path / "watcher_heartbeat_OrionMX.json"
    document = {"watcher_id": "OrionMX", "pid": 4711, "status": "running", "utc": "2026-02-05T14:30:15Z"}
    path.write_text(json.dumps(document))
    assert read_heartbeat_file(path) == document
    assert read_watcher_heartbeat(tmp_path, "OrionMX") == document


def test_read_heartbeat_file_missing(tmp_path: Path) -> None:
    assert read_heartbeat_file(tmp_path / "watcher_heartbeat_OrionMX.json") is None
    assert read_watcher_heartbeat(tmp_path, "OrionMX") is None


@pytest.mark.parametrize("content", [b"", b'{"status": "runn', b"[]", b"\xff\xfe", b"[" * 100_000])
def test_read_heartbeat_file_invalid(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "watcher_heartbeat_OrionMX.json"
    path.write_bytes(content)
    assert read_heartbeat_file(path) is None


@pytest.mark.parametrize("content", ["", '{"by": "cli:anna"}', "not JSON at all"])
def test_is_watcher_paused_true(tmp_path: Path, content: str) -> None:
    (tmp_path / "supervisor_pause_OrionMX.flag").write_text(content)
    assert is_watcher_paused(tmp_path, "OrionMX")


def test_is_watcher_paused_false(tmp_path: Path) -> None:
    assert not is_watcher_paused(tmp_path, "OrionMX")
    (tmp_path / "supervisor_pause_OrionMX2.flag").touch()
    assert not is_watcher_paused(tmp_path, "OrionMX"), "another worker's flag is not its own"
    (tmp_path / "supervisor_pause_OrionMX.flag").mkdir()
    assert not is_watcher_paused(tmp_path, "OrionMX"), "a folder of that name is no flag"


def test_get_heartbeat_age_seconds(tmp_path: Path) -> None:
    path = tmp_path / "watcher_heartbeat_OrionMX.json"
    assert get_heartbeat_age_seconds(path) is None
    path.write_text('{"utc": "1999-01-01T00:00:00Z"}')
    written = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
    os.utime(path, (written.timestamp(), written.timestamp()))
    assert get_heartbeat_age_seconds(path, written + timedelta(seconds=90)) == 90
    assert get_heartbeat_age_seconds(path, written - timedelta(seconds=5)) == -5, "it is from the future"
    path.touch()
    age = get_heartbeat_age_seconds(path)
    assert age is not None
    assert -1 < age < 60


@pytest.mark.parametrize("label", ["hotfix", "Hot fix_1-2", "a", "x" * 100, "0"])
def test_validate_label_valid(label: str) -> None:
    assert validate_label(label) == (True, "")


def test_validate_label_too_long() -> None:
    valid, error = validate_label("x" * 101)
    assert not valid
    assert "100" in error


@pytest.mark.parametrize("label", ["a/b", "a\nb", "a\tb", "hotfix\n", "é", "a;b", "a.b", "\x00", "a\u00a0b"])
def test_validate_label_invalid_characters(label: str) -> None:
    valid, error = validate_label(label)
    assert not valid
    assert error


def test_check_control_flags_returns_the_actions_taken(home: Home) -> None:
    supervisor = Supervisor(home.config, "OrionMX")
    assert supervisor.check_control_flags() == []
    home.drop_flag("supervisor_pause_OrionMX_t1.flag", {})
    home.drop_flag("supervisor_pause_West_t2.flag", {})
    assert supervisor.check_control_flags() == ["pause"]
    assert supervisor.findings.succeeded
    assert is_watcher_paused(home.nas / "00_STATE", "OrionMX")
    assert supervisor.check_control_flags() == []
    home.drop_flag("supervisor_pause_OrionMX_t3.flag", {"label": "no/slash"})
    assert supervisor.check_control_flags() == []
    assert "rejected" in supervisor.findings.problems[0]


def test_the_heartbeats_can_be_written_outside_of_a_pass(home: Home) -> None:
    supervisor = Supervisor(home.config, "OrionMX")
    assert supervisor.write_heartbeat_file()
    said = read_heartbeat_file(home.nas / "00_STATE" / "supervisor_heartbeat_OrionMX.json")
    assert said is not None
    assert (said["success"], said["worker_id"], said["actions"]) == (True, "OrionMX", [])
    assert supervisor.report_heartbeat_to_database()
    home.nas.rename(home.folder / "elsewhere")
    assert not supervisor.write_heartbeat_file()
    assert "The drive isn't mounted" in supervisor.findings.problems[0]
    assert supervisor.report_heartbeat_to_database(), "the ledger is at home"
    assert not home.nas.exists()


def test_run_once_gives_the_exit_code_and_beside_another_does_nothing(home: Home) -> None:
    supervisor = Supervisor(home.config, "OrionMX")
    assert supervisor.run_once() == 1, "the worker does not run"
    (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").touch()
    assert supervisor.run_once() == 0
    with pass_ownership(home.state_dir, "OrionMX"):
        home.drop_flag("supervisor_resume_OrionMX_t1.flag", {})
        assert supervisor.run_once() == 0
        assert f"Another pass for OrionMX is running (pid {os.getpid()}" in supervisor.busy_reason
        with pytest.raises(BusyError):
            supervisor.check_control_flags()
    assert is_watcher_paused(home.nas / "00_STATE", "OrionMX"), "the flag is for later"
