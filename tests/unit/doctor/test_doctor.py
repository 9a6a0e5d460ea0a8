"""What doctor decides purely: bounds, clocks, disks, and what Slack's answers mean."""

from __future__ import annotations

import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from bot.doctor.tokens import hide_secrets
from supervisor_core.common.errors import TemporaryError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.doctor.checks import Check, CheckResult, run_checks
from supervisor_core.doctor.host import compare_clock
from supervisor_core.host.disks import remote_kind
from supervisor_core.storage.ledger_file import envelope_times, file_state

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
NO_CONFIG = cast("SupervisorConfig", None)  # for checks that look at none
DATE = "Thu, 05 Feb 2026 14:30:15 GMT"


def test_a_check_that_hangs_keeps_no_other_from_being_told() -> None:
    never = threading.Event()

    def hangs(_: SupervisorConfig) -> CheckResult:
        never.wait()
        raise AssertionError

    fine = CheckResult("fine", True, "it is")
    hung, told = run_checks([Check("hangs", hangs, seconds=0.2), Check("fine", lambda _: fine)], NO_CONFIG)
    never.set()
    assert told == fine
    assert (hung.name, hung.ok) == ("hangs", False)
    assert "the check timed out" in hung.message


@pytest.mark.parametrize(
    ("error", "message", "remedy"),
    [
        (TemporaryError("The drive hangs.", remedy="Check the mount."), "The drive hangs.", "Check the mount."),
        (PermissionError(13, "Permission denied", "/x"), "/x: Permission denied", "Run this as the owner"),
        (ValueError("what"), "unexpected error: ValueError: what", ""),
    ],
)
def test_a_check_that_fails_by_an_error_is_told_like_any_other(error: Exception, message: str, remedy: str) -> None:
    def fails(_: SupervisorConfig) -> CheckResult:
        raise error

    (check,) = run_checks([Check("x", fails)], NO_CONFIG)
    assert (check.name, check.ok, check.message) == ("x", False, message)
    assert remedy in check.remedy


@pytest.mark.parametrize(
    ("ahead", "way", "ok", "words"),
    [
        (0.0, 0.0, True, "within 5 s of Slack's clock"),
        (5.4, 0.0, True, "within 5 s of Slack's clock"),
        (-4.4, 0.0, True, "within 5 s of Slack's clock"),
        (6.0, 0.0, False, "6 s ahead of Slack's"),
        (-6.0, 0.0, False, "6 s behind Slack's"),
        (6.0, 8.0, True, "within 5 s of Slack's clock"),
    ],
)
def test_the_clock_is_judged_by_the_middle_of_the_way(ahead: float, way: float, ok: bool, words: str) -> None:
    asked = NOW + timedelta(seconds=ahead - way / 2 + 0.4)
    check = compare_clock(DATE, asked, asked + timedelta(seconds=way))
    assert check.ok is ok
    assert words in check.message


class Mount(NamedTuple):
    """As psutil tells one."""

    mountpoint: str
    fstype: str
    opts: str = "rw,relatime"


MOUNTS = (Mount("/", "ext4"), Mount("/mnt", "nfs4"), Mount("/mnt/local", "xfs"), Mount("/net", "autofs"))


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib", ""),
        ("/mnt/x", "nfs4"),
        ("/mnt", "nfs4"),
        ("/mnt/local/x", ""),
        ("/mntx", ""),
        ("/net/host/x", "fuse.sshfs"),
        ("/smb", "network drive"),
    ],
)
def test_the_disk_of_a_folder_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    over = (Mount("/net/host", "ext4"), Mount("/net/host", "fuse.sshfs"), Mount("/smb", "ntfs", "rw,remote"))
    assert remote_kind(Path(folder), (*MOUNTS, *over)) == kind


def test_a_ledger_too_large_to_be_looked_through_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    numbers = "WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 50000)"
    connection.execute(f"INSERT INTO t {numbers} SELECT a FROM n")
    connection.commit()
    connection.close()
    assert file_state(path, 60.0).whole
    seen = file_state(path, -1.0)
    assert (seen.version, seen.damage, seen.whole) == (None, "", False)


def test_a_ledger_that_does_not_say_knows_of_no_click(tmp_path: Path) -> None:
    assert envelope_times(tmp_path / "nowhere.db", "interactive") is None
    (tmp_path / "none.db").write_text("this is no database")
    assert envelope_times(tmp_path / "none.db", "interactive") is None


def test_no_check_repeats_a_secret_whoever_put_it_there() -> None:
    check = CheckResult("x", False, "can't connect with xoxb-1", "try xapp-2 again")
    (clean,) = hide_secrets(["xoxb-1", "xapp-2"], [check])
    assert (clean.message, clean.remedy) == ("can't connect with …", "try … again")
