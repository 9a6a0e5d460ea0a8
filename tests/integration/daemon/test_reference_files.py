"""The files reference lists every file that a daemon writes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.reference import files
from tests.support.homes import a_home
from tests.support.waiting import wait_until

PLACES = {
    "ID": "OrionMX",
    "HASH": r"[0-9a-f]+",
    "HANDLER": r"[a-z_]+",
    "COMMAND": r"task_\w+|t1",
    "NAME": r"[^/]+",
    "TIME": r"\w+",
}
BESIDE = r"(-wal|-shm|\.lock|\.[0-9]+)?"
"""What SQLite, a lock and the rotation of logs put beside a file."""


def patterns(names: Iterable[str]) -> list[re.Pattern[str]]:
    """The rows of a table as patterns of paths; a folder stands for all that is in it."""
    found = []
    for name in names:
        parts = re.split(f"({'|'.join(PLACES)})", name)
        text = "".join(f"({PLACES[part]})" if part in PLACES else re.escape(part) for part in parts)
        found.append(re.compile(f"{text}.*" if name.endswith("/") else f"{text}{BESIDE}"))
    return found


def unlisted(folder: Path, names: Iterable[str]) -> list[str]:
    known = patterns(names)
    there = (path for path in folder.rglob("*") if not path.is_dir() and not path.name.startswith("."))
    paths = (path.relative_to(folder).as_posix() for path in there)
    return [path for path in paths if not any(pattern.fullmatch(path) for pattern in known)]


def test_every_file_of_a_daemon_is_on_the_page(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        home.start_daemon()
        home.supervisor("send", "pause", "OrionMX", "--wait")
        home.drop_flag("supervisor_nonsense_OrionMX.flag")
        home.drop_flag("supervisor_resume_OrionMX_t1.flag")
        home.supervisor("send", "diagnostics", "--wait")
        wait_until(lambda: home.result("resume", "t1"), 20, "the flag was followed")
        home.supervisor("stop")
        home.supervisor("once")
        assert unlisted(home.state_dir, files.HOME) == []
        folders = {"00_STATE": "state", "05_LOGS": "logs", "Worker_Inbox": "inbox", "Worker_Outbox": "outbox"}
        drive = [
            name.replace(key, folder, 1)
            for folder, key in folders.items()
            for name in files.DRIVE
            if name.startswith(key)
        ]
        assert unlisted(home.folder / "nas", drive) == []


def test_a_file_that_is_not_on_the_page_is_found(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    for name in ("ledger.db", "ledger.db-wal", "workers/OrionMX.lives", "workers/OrionMX.new", "other.json"):
        (tmp_path / name).touch()
    assert sorted(unlisted(tmp_path, files.HOME)) == ["other.json", "workers/OrionMX.new"]
