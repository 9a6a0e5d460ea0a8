"""Whether a supervisor can work here: what is missing is made, and what can't be used is named with what to do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import validate_supervisor_environment
from supervisor_core.host.drive import Drive, DriveUnavailable
from tests.support.configurations import configured

OURS = ("00_STATE", "05_LOGS", "Worker_Inbox", "Worker_Outbox")
"""The folders that the supervisor uses; the others are only for workers."""

WORKERS_OWN = ("01_RAW", "02_WORK", "03_REFERENCE", "04_PUBLISH")


@pytest.fixture
def config(tmp_path: Path) -> SupervisorConfig:
    return configured(tmp_path)


def test_what_is_missing_below_the_root_is_made_and_nothing_else_is_left(config: SupervisorConfig) -> None:
    assert validate_supervisor_environment(config) == {"valid": True, "issues": []}
    assert sorted(os.listdir(config.drive_root)) == sorted(OURS + WORKERS_OWN)
    assert all(os.listdir(config.drive_root / name) == [] for name in OURS + WORKERS_OWN)
    assert os.listdir(config.state_dir) == []
    assert config.state_dir.stat().st_mode & 0o777 == 0o700
    assert validate_supervisor_environment(config)["valid"], "and again"


def test_a_root_that_is_not_there_is_an_issue_and_is_not_made(config: SupervisorConfig) -> None:
    config.drive_root.rmdir()
    found = validate_supervisor_environment(config)
    assert not found["valid"]
    (issue,) = found["issues"]
    assert "Mount it, or correct nas.root" in issue
    assert not config.drive_root.exists()


def test_a_drive_that_hangs_is_an_issue_and_not_waited_for(config: SupervisorConfig) -> None:
    drive, release = Drive(config.drive_root), threading.Event()
    with pytest.raises(DriveUnavailable):
        drive.call(release.wait, timeout=0.02)
    found = validate_supervisor_environment(config, drive)
    release.set()
    assert not found["valid"]
    assert "hangs" in found["issues"][0]


@pytest.mark.parametrize(
    ("spoil", "key"),
    [
        (lambda root: (root / "Worker_Inbox").write_text(""), "nas.folders.inbox"),
        (lambda root: (root / "Worker_Outbox").symlink_to(root / "nowhere"), "nas.folders.outbox"),
        (lambda root: (root / "05_LOGS").write_text(""), "nas.folders.logs"),
        (lambda root: (root / "00_STATE").symlink_to("/proc/self"), "nas.folders.state"),
        (lambda root: (root.parent / "var").write_text(""), "supervisor.state_dir"),
    ],
    ids=["inbox", "outbox", "logs", "state", "the state folder"],
)
def test_what_can_not_be_used_is_named_with_its_setting(
    config: SupervisorConfig, spoil: Callable[[Path], object], key: str
) -> None:
    spoil(config.drive_root)
    found = validate_supervisor_environment(config)
    assert not found["valid"]
    (issue,) = found["issues"]
    assert key in issue


def test_every_issue_is_told(config: SupervisorConfig) -> None:
    for name in OURS:
        (config.drive_root / name).write_text("")
    assert len(validate_supervisor_environment(config)["issues"]) == len(OURS)


def test_a_folder_that_only_workers_use_may_be_anything_and_is_warned_of(
    config: SupervisorConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (config.drive_root / "01_RAW").symlink_to(elsewhere)
    (config.drive_root / "02_WORK").write_text("")
    assert validate_supervisor_environment(config) == {"valid": True, "issues": []}
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [key for key in ("nas.folders.raw", "nas.folders.work") if key in " ".join(warnings)] == [
        "nas.folders.raw",
        "nas.folders.work",
    ]
    assert len(warnings) == 2
    assert os.listdir(elsewhere) == []
