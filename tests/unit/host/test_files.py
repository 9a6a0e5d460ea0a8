"""The one door for shared files: whole or not at all, and no trap when reading."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from supervisor_core.host import drive_files, open_folder
from supervisor_core.host.descriptors import UnreadableFileError, retry_rename, temporary_name
from supervisor_core.host.files import read_json, read_limited, write_atomically, write_json
from supervisor_core.host.open_folder import OpenFolder


def test_a_written_file_has_the_content_and_the_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with OpenFolder.at(tmp_path, shared=False) as folder:
            folder.write("a", "grüße".encode(), 0o640)
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_text("utf-8") == "grüße"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_file_of_ours_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_json(tmp_path / "a", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_atomically(target, b"old")
    held = target.open("rb")
    write_atomically(target, b"new and longer")
    with held:
        assert held.read() == b"old"


def test_a_failure_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "a", b"old")

    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "a", b"new")
    monkeypatch.undo()
    assert caught.value.filename == str(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_the_temporary_name_is_hidden_and_no_flag_even_for_the_longest_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_folder, "retry_rename", lambda rename: None)
    write_atomically(tmp_path / f"{'ü' * 120}.flag", b"x")
    (name,) = os.listdir(tmp_path)
    assert name.startswith(".")
    assert name.endswith(".tmp")


def test_a_link_at_the_target_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a").symlink_to(tmp_path / "secret")
    write_atomically(tmp_path / "a", "public")
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "a").is_symlink()


def test_all_short_writes_together_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    write_atomically(tmp_path / "a", b"0123456789")
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"0123456789"


class _BusyError(PermissionError):
    winerror = 32


def test_a_target_that_is_looked_at_on_windows_is_replaced_a_moment_later() -> None:
    failures = [_BusyError(13, "in use"), _BusyError(13, "in use")]
    pauses: list[float] = []

    def rename() -> None:
        if failures:
            raise failures.pop()

    retry_rename(rename, pause=pauses.append)
    assert len(pauses) == 2
    assert pauses == sorted(pauses)


def test_what_is_no_json_fails_before_the_disk_is_touched(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert read_json(tmp_path / "a.json") == {"a": 1}


BROKEN = [b"", b"{", b"[1]", b'{"a": NaN}', b"\xff\xfe{}", b"[" * 100_000, b'"text"']


@pytest.mark.parametrize("content", BROKEN, ids=lambda content: repr(content[:8]))
def test_a_broken_file_is_an_error_that_names_it_or_none_where_that_is_asked(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"a\.json"):
        read_json(tmp_path / "a.json")
    assert read_json(tmp_path / "a.json", tolerant=True) is None


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "a.json") == {"a": 1}


def test_a_folder_that_is_away_is_no_statement_about_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        read_json(tmp_path / "file" / "a.json", tolerant=True)


def test_a_file_of_exactly_the_limit_is_read_and_a_bigger_one_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert read_limited(tmp_path / "a", 10) == b"x" * 10
    with pytest.raises(UnreadableFileError, match="larger than 9 bytes"):
        read_limited(tmp_path / "a", 9)


def test_a_file_that_claims_to_be_empty_is_still_read_to_its_end() -> None:
    assert read_limited("/proc/self/stat", 4096)
    with pytest.raises(UnreadableFileError, match="larger than"):
        read_limited("/proc/self/stat", 5)


def test_a_link_put_there_between_the_look_and_the_opening_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a").symlink_to(tmp_path / "secret")
    monkeypatch.setattr(OpenFolder, "look", lambda self, name: (tmp_path / "secret").stat())
    with pytest.raises(UnreadableFileError, match="symbolic link"):
        read_limited(tmp_path / "a", 100)


def test_a_fifo_put_there_between_the_look_and_the_opening_is_refused_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "regular").write_text("x")
    os.mkfifo(tmp_path / "a")
    monkeypatch.setattr(OpenFolder, "look", lambda self, name: (tmp_path / "regular").stat())
    with pytest.raises(UnreadableFileError, match="isn't a regular file"):
        read_limited(tmp_path / "a", 100)


def test_a_socket_a_device_and_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a")
        for path in (tmp_path / "a", "/dev/zero", tmp_path):
            with pytest.raises(UnreadableFileError, match="isn't a regular file"):
                read_limited(path, 100)


def test_an_only_writer_takes_away_what_a_crash_left_of_an_earlier_try(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    before = set(tmp_path.iterdir())
    temporary = tmp_path / temporary_name(target.name, only_writer=True)
    temporary.write_text("half of i")
    assert set(tmp_path.iterdir()) > before
    drive_files.write(tmp_path, target, b"whole", 0o640, only_writer=True)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert target.read_text() == "whole"
