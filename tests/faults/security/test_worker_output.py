"""Attacks on what workers print: files swapped for links and pipes before they are rotated, read and delivered."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.alerts.decisions import last_words
from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import SupervisorError
from supervisor_core.diagnosis.reports.handlers import generate_diagnostics
from supervisor_core.diagnosis.worker_logs import NewestLines
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.processes.output.files import drive_log, output_path
from supervisor_core.workers.output.service import maintain_output
from tests.support.intake.handler_hosts import FakeHost

LIMIT = 64 * 1024
PRIVATE = "-----BEGIN PRIVATE KEY-----\n" * 10_000


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "private"
    path.write_text(PRIVATE)
    return path


def links(victim: Path) -> dict[str, Callable[[Path], object]]:
    return {
        "symbolic link": lambda path: path.symlink_to(victim),
        "hard link": lambda path: os.link(victim, path),
    }


@pytest.mark.parametrize("kind", ["symbolic link", "hard link"])
@pytest.mark.parametrize("name", ["North.log", "North.log.1", ".North.log.copy", "North.json", ".North.json.tmp"])
def test_a_link_in_place_of_a_file_of_captured_output_empties_nothing(
    tmp_path: Path, victim: Path, kind: str, name: str
) -> None:
    folder = tmp_path / "output"
    folder.mkdir()
    (folder / "North.log").write_bytes(b"a line of output\n" * 5000)
    (folder / name).unlink(missing_ok=True)
    links(victim)[kind](folder / name)
    with contextlib.suppress(SupervisorError):
        WorkerOutput(folder / "North.log").rotate(LIMIT, 2)
    assert victim.read_text() == PRIVATE


@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "pipe"])
def test_a_log_on_the_drive_swapped_for_something_else_is_not_written_to(
    tmp_path: Path, victim: Path, kind: str
) -> None:
    (tmp_path / "host").mkdir()
    host = FakeHost(tmp_path / "host").host
    target, local = drive_log(host.config, "OrionMX"), output_path(host.config.state_dir, "OrionMX")
    target.parent.mkdir(parents=True)
    {**links(victim), "pipe": os.mkfifo}[kind](target)
    local.parent.mkdir()
    local.write_text("first\n")
    begun = time.monotonic()
    with pytest.raises((SupervisorError, OSError)):
        maintain_output(host, "OrionMX")
    assert time.monotonic() - begun < 5
    assert victim.read_text() == PRIVATE
    target.unlink()
    with local.open("a") as worker:
        worker.write("second\n")
    maintain_output(host, "OrionMX")
    assert target.read_text() == "first\nsecond\n", "what could not be delivered then is there now, once"
    assert (target.stat().st_mode & 0o777) == host.config.nas.file_mode


def shown(host: Any) -> str:
    """Everything that shows the end of what a worker wrote."""
    issuer, now = Issuer("cli:anna", "anna"), datetime.now(UTC)
    job = Job(1, "Host", "t1", "OrionMX", "diagnostics", {}, None, issuer, "cli", JobState.STARTED, now)
    report = generate_diagnostics(host, job)
    texts = [Path(report.details["report_path"]).read_text()]
    texts += [line for each in NewestLines()(host.drive, host.config, ["OrionMX"], 50) for line in each.lines]
    try:
        texts += last_words(host, "OrionMX")
    except (SupervisorError, OSError) as error:
        texts.append(str(error))
    return "\n".join(texts)


@pytest.mark.parametrize("kind", ["symbolic link", "hard link"])
def test_a_log_on_the_drive_swapped_after_the_launch_shows_nothing_private(
    tmp_path: Path, victim: Path, kind: str
) -> None:
    (tmp_path / "host").mkdir()
    host = FakeHost(tmp_path / "host").host
    target, local = drive_log(host.config, "OrionMX"), output_path(host.config.state_dir, "OrionMX")
    local.parent.mkdir()
    local.write_text("ERROR its own words\n")
    target.parent.mkdir(parents=True)
    links(victim)[kind](target)
    text = shown(host)
    assert "its own words" in text
    assert "PRIVATE KEY" not in text


@pytest.mark.parametrize("place", ["nas/own.log", "own.log"])
@pytest.mark.parametrize("kind", ["symbolic link", "pipe"])
def test_a_pipe_or_a_link_as_the_log_of_a_worker_hangs_nobody_and_shows_nothing(
    tmp_path: Path, victim: Path, place: str, kind: str
) -> None:
    (tmp_path / "host").mkdir()
    host = FakeHost(tmp_path / "host", log_file=place).host
    {**links(victim), "pipe": os.mkfifo}[kind](tmp_path / "host" / place)
    begun = time.monotonic()
    assert "PRIVATE KEY" not in shown(host)
    assert time.monotonic() - begun < 10
    assert not host.drive.hangs


def test_a_folder_of_logs_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "elsewhere").mkdir()
    host = FakeHost(tmp_path / "host").host
    target, local = drive_log(host.config, "OrionMX"), output_path(host.config.state_dir, "OrionMX")
    target.parent.parent.mkdir(parents=True)
    target.parent.symlink_to(tmp_path / "elsewhere")
    local.parent.mkdir()
    local.write_text("not there\n")
    with pytest.raises((SupervisorError, OSError)):
        maintain_output(host, "OrionMX")
    assert list((tmp_path / "elsewhere").iterdir()) == []
