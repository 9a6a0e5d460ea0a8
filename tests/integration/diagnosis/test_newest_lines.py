"""What workers wrote last, read: without secrets, across a rotation, and whatever the disk does."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.diagnosis.worker_logs import NewestLines, WorkerLog
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.processes.output.files import output_path
from supervisor_core.workers.context import open_drive

SECRET = "hunter2-hunter2"


def a_config(folder: Path, **worker: Any) -> SupervisorConfig:
    (folder / "nas" / "05_LOGS" / "workers").mkdir(parents=True)
    document = {
        "supervisor": {"state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {
            "OrionMX": {"command": ["x"], "env": {"API_PASSWORD": SECRET}, **worker},
            "VegaMX": {"command": ["x"]},
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    return load_supervisor_config(folder / "config.yaml", environ={})


def captured(config: SupervisorConfig) -> Path:
    path = output_path(config.state_dir, "OrionMX")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def read(config: SupervisorConfig, count: int = 20, drive: Drive | None = None) -> WorkerLog:
    return NewestLines()(drive or open_drive(config), config, ["OrionMX"], count)[0]


def test_the_newest_lines_are_shown_without_secrets_and_each_on_one_line(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    captured(config).write_bytes(f"one\ntwo {SECRET}\n\x1b[31mthree\xff\n".encode("latin-1"))
    assert read(config, 2).lines == ("two ****", "\\x1b[31mthree\N{REPLACEMENT CHARACTER}")
    assert read(config).lines[0] == "one"


def test_a_worker_that_wrote_nothing_yet_and_one_of_several_that_did(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    captured(config).write_text("")
    assert read(config).nothing
    captured(config).write_text("hello\n")
    first, second = NewestLines()(open_drive(config), config, ["OrionMX", "VegaMX"], 5)
    assert (first.lines, second.nothing) == (("hello",), True)


def test_what_was_written_before_a_rotation_is_not_forgotten(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    captured(config).with_name("OrionMX.log.1").write_text("one\ntwo\nthr")
    captured(config).write_text("ee\nfour\n")
    assert read(config, 3).lines == ("two", "three", "four")


def test_the_file_that_a_worker_writes_itself_is_read(tmp_path: Path) -> None:
    config = a_config(tmp_path, log_file=str(tmp_path / "own.log"))
    (tmp_path / "own.log").write_text("its own\n")
    found = read(config)
    assert (found.lines, found.path) == (("its own",), str(tmp_path / "own.log"))


def test_the_own_log_of_a_worker_is_read_across_its_rotation(tmp_path: Path) -> None:
    config = a_config(tmp_path, log_file=str(tmp_path / "own.log"))
    (tmp_path / "own.log.1").write_text("earlier\n")
    (tmp_path / "own.log").write_text("now\n")
    assert read(config).lines == ("earlier", "now")


def test_a_drive_that_hangs_or_is_away_is_said_in_place_of_the_lines(tmp_path: Path) -> None:
    config = a_config(tmp_path, log_file=str(tmp_path / "nas" / "own.log"))
    (tmp_path / "nas" / "own.log").write_text("hello\n")
    drive, back = open_drive(config), threading.Event()
    with pytest.raises(DriveUnavailable):
        drive.call(back.wait, timeout=0.01)
    assert "hangs" in read(config, drive=drive).problem
    back.set()
    (tmp_path / "nas").rename(tmp_path / "elsewhere")
    assert "The drive isn't mounted" in read(config).problem


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    (tmp_path / "private").write_text("not for you\n")
    captured(config).symlink_to(tmp_path / "private")
    found = read(config)
    assert found.lines == ()
    assert "is a symbolic link" in found.problem
