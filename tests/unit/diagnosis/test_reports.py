"""What reports may show, what they are called, and that one part of them never spoils the others."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.common.errors import TemporaryError
from supervisor_core.diagnosis.reports import files
from supervisor_core.diagnosis.reports.files import KEPT_AT_HOME, gather, report_name, write_at_home
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.logging.excerpts import LONGEST_LINE, READ_BYTES, last_lines, read_end
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.open_folder import FileEnd

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
NOTHING = Masking(())
SECRETS = st.text(st.characters(codec="utf-8"), min_size=4, max_size=30).filter(lambda text: len(text.strip()) >= 4)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        (None, "diagnostics_OrionMX_20260205T143015Z.json"),
        ("", "diagnostics_OrionMX_20260205T143015Z.json"),
        ("before the upgrade", "diagnostics_OrionMX_20260205T143015Z_before_the_upgrade.json"),
        ("a" * 100, f"diagnostics_OrionMX_20260205T143015Z_{'a' * 100}.json"),
    ],
)
def test_a_report_is_called_by_its_kind_worker_time_and_label(label: str | None, name: str) -> None:
    assert report_name("diagnostics", "OrionMX", NOW, label) == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("db://me:hunter2@host/x", "db://****@host/x"),
        ("https://token@host/x", "https://****@host/x"),
        ("db://me:p@ss@host/x", "db://****@host/x"),
        ("db://me:p/w@host/x", "db://****@host/x"),
        ("http://host:8080/a?b=c see mail@host", "http://host:8080/a?b=c see mail@host"),
        ("xoxb-12345-67890-abc and xapp-1-A0-12345", "**** and ****"),
        ("the box-office", "the box-office"),
        ("half \ud800 and nul \0", "half \\ud800 and nul \\x00"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_though_nobody_configured_it(text: str, shown: str) -> None:
    assert NOTHING.text(text) == shown


@given(secret=SECRETS)
def test_a_secret_is_hidden_in_whatever_spelling(secret: str) -> None:
    masking = Masking({secret})
    for spelling in (secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret)):
        assert secret not in masking.text(f"<{spelling}>").replace("****", "")


@given(secret=SECRETS, document=st.recursive(st.integers(), st.lists, max_leaves=5))
def test_a_secret_is_hidden_at_any_depth_of_somebody_elses_json(secret: str, document: Any) -> None:
    shown = json.dumps(
        Masking({secret}).foreign({secret: [document, {"x": (secret, {secret: 1})}]}), ensure_ascii=False
    )
    assert json.dumps(secret, ensure_ascii=False)[1:-1] not in shown.replace("****", "").replace('"x"', "")


def test_our_own_keys_and_numbers_are_no_secrets_and_the_names_of_workers_are_not_either() -> None:
    masking = Masking({"running", "8080", "OrionMX"}, public={"OrionMX"})
    assert masking.ours({"running": 8080, "x": "running on OrionMX"}) == {"running": 8080, "x": "**** on OrionMX"}
    assert masking.foreign({"running": 8080, "y": True}) == {"****": "****", "y": True}


def test_what_json_does_not_have_is_told_in_words() -> None:
    told = NOTHING.ours({"at": NOW, "nan": float("nan"), "path": Path("/x"), "odd": {1: b"x"}})
    assert told == {"at": "2026-02-05T14:30:15.234567Z", "nan": "nan", "path": "/x", "odd": {"1": "b'x'"}}


class Clock:
    """Its time is up after so many looks."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def monotonic(self) -> float:
        self._left -= 1
        return 0.0 if self._left >= 0 else 60.0


def test_a_part_that_hangs_or_fails_says_so_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()

    def fails() -> dict[str, Any]:
        raise TemporaryError("It hangs at db://me:hunter2@host.", remedy="Check the mount.")

    def breaks() -> dict[str, Any]:
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        return {"deep": deep}

    def waits() -> dict[str, Any]:
        never.wait()
        return {}

    parts = {"fails": fails, "breaks": breaks, "fine": lambda: {"x": "hunter2"}, "waits": waits}
    monkeypatch.setattr(files, "time", Clock(looks=len(parts)))  # the first one is at the beginning
    found = gather(parts, 60, Masking({"hunter2"}))
    never.set()
    assert list(found) == ["fails", "breaks", "fine", "waits"]
    assert found["fine"] == {"ok": True, "x": "****"}
    assert found["fails"] == {"ok": False, "error": "It hangs at db://****@host. Check the mount."}
    assert found["waits"] == {"ok": False, "error": "timed out after 60 s: something hangs"}
    assert (found["breaks"]["ok"], found["breaks"]["error"].startswith("RecursionError")) == (False, True)


def test_a_part_that_hangs_keeps_no_later_one_waiting() -> None:
    later = threading.Event()

    def waits() -> dict[str, Any]:
        return {"released": later.wait(60)}

    def fine() -> dict[str, Any]:
        later.set()
        return {}

    assert gather({"waits": waits, "fine": fine}, 60, NOTHING) == {
        "waits": {"ok": True, "released": True},
        "fine": {"ok": True},
    }


def test_the_end_of_a_log_is_whole_lines_on_one_line_each() -> None:
    end = FileEnd(b"half of hunt\none\r\ntwo \x1b[31m\n\nthree\xff", 9999, cut=True)
    assert last_lines(end, 50, NOTHING).lines == ["one", "two \\x1b[31m", "", "three\N{REPLACEMENT CHARACTER}"]
    assert last_lines(end, 2, NOTHING).lines == ["", "three\N{REPLACEMENT CHARACTER}"]
    assert last_lines(FileEnd(b"", 0, cut=False), 50, NOTHING).lines == []
    assert last_lines(FileEnd(b"x" * 5000 + b"\n", 5001, cut=False), 50, NOTHING).lines[0].startswith("x" * 1999)
    assert len(last_lines(FileEnd(b"x" * 5000, 5000, cut=False), 50, NOTHING).lines[0]) == LONGEST_LINE


@pytest.mark.parametrize("cut_at", range(8))
def test_a_secret_that_was_cut_in_two_where_the_end_begins_shows_neither_half(tmp_path: Path, cut_at: int) -> None:
    log = tmp_path / "log"
    secret = b"hunter2!"
    log.write_bytes(b"a" * 1000 + secret + b"b" * (READ_BYTES - len(secret) + cut_at))
    (line,) = last_lines(read_end(log), 50, Masking({secret.decode()})).lines
    assert set(line) == {"b", "…"}


def test_a_secret_is_masked_before_its_line_is_cut() -> None:
    end = FileEnd(b"x" * (LONGEST_LINE - 5) + b"hunter2!", 9, cut=False)
    (line,) = last_lines(end, 50, Masking({"hunter2!"})).lines
    assert line.endswith("x****")


def test_a_pipe_a_link_and_a_folder_are_no_logs(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path):
        with pytest.raises(UnreadableFileError, match=r"(isn't a regular file|a symbolic link)\."):
            read_end(path)


def test_reports_at_home_do_not_fill_the_disk(tmp_path: Path) -> None:
    for number in range(KEPT_AT_HOME + 5):
        write_at_home(tmp_path / "diagnostics", f"{number:03}.json".__str__, b"{}")
    kept = sorted(path.name for path in (tmp_path / "diagnostics").iterdir())
    assert (len(kept), kept[-1]) == (KEPT_AT_HOME, f"{KEPT_AT_HOME + 4:03}.json")
