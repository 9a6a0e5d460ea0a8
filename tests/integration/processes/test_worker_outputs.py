"""Captured output whose files a person touched, and the service that looks after all of it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
from pathlib import Path

import pytest

from supervisor_core.config.load import load_supervisor_config
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.processes.output.files import drive_log, output_path
from supervisor_core.workers.context import DaemonContext, open_doors
from supervisor_core.workers.output.service import WorkerOutputs, maintain_output
from tests.support.intake.handler_hosts import FakeHost
from tests.support.processes.worker_outputs import everything
from tests.support.storage.ledger_rows import opened
from tests.support.waiting import wait_until


def test_output_that_somebody_emptied_by_hand_reaches_the_drive_from_its_next_line_on(tmp_path: Path) -> None:
    host = FakeHost(tmp_path).host
    local, there = output_path(host.config.state_dir, "OrionMX"), drive_log(host.config, "OrionMX")
    local.parent.mkdir()
    local.write_text("before\n" * 100)
    maintain_output(host, "OrionMX")
    os.truncate(local, 0)
    with local.open("a") as worker:
        worker.write("after\n")
    maintain_output(host, "OrionMX")
    assert there.read_text() == "before\n" * 100 + "after\n"


def test_files_that_a_person_removed_or_replaced_keep_no_other_output_from_the_drive(tmp_path: Path) -> None:
    host = FakeHost(tmp_path).host
    folder, there = host.config.state_dir / "output", drive_log(host.config, "OrionMX")
    folder.mkdir()
    for name in ("Broken.log", "Gone.log", "OrionMX.log"):
        (folder / name).write_text("first\n")
    (folder / "Broken.json").mkdir()

    async def story(parts: DaemonContext) -> None:
        outputs, stopping = WorkerOutputs(parts), asyncio.Event()
        running = asyncio.create_task(outputs.run(stopping))
        await asyncio.to_thread(wait_until, there.exists, message="the first lines on the drive")
        (folder / "Gone.log").unlink()
        with (folder / "OrionMX.log").open("a") as worker:
            worker.write("second\n")
        both = "first\nsecond\n"
        await asyncio.to_thread(wait_until, lambda: there.read_text() == both, message="the next line on the drive")
        stopping.set()
        await running
        await outputs.finish()

    with opened(host.config.state_dir) as ledger:
        asyncio.run(story(DaemonContext(host, ledger)))


def test_what_was_written_while_the_drive_was_away_follows_with_a_line_for_what_was_dropped(tmp_path: Path) -> None:
    FakeHost(tmp_path)
    with (tmp_path / "config.yaml").open("a") as file:
        file.write("logging: {max_bytes: 10000, backups: 1}\n")
    host = open_doors(load_supervisor_config(tmp_path / "config.yaml"))
    local, there = output_path(host.config.state_dir, "OrionMX"), drive_log(host.config, "OrionMX")
    local.parent.mkdir()
    lines = [f"line {number:06d}\n".encode() for number in range(6000)]
    away = host.drive.root.with_name("away")

    def write(part: list[bytes]) -> None:
        with local.open("ab") as worker:
            worker.write(b"".join(part))

    write(lines[:500])
    maintain_output(host, "OrionMX")
    assert there.read_bytes() == b"".join(lines[:500])
    host.drive.root.rename(away)
    for start in range(500, 4500, 500):  # twice as much as is kept
        write(lines[start : start + 500])
        with pytest.raises(DriveUnavailable):
            maintain_output(host, "OrionMX")
    away.rename(host.drive.root)
    write(lines[4500:4600])
    maintain_output(host, "OrionMX")
    delivered = everything(there).removeprefix(b"".join(lines[:500]))
    notice, _, rest = delivered.partition(b"\n")
    match = re.fullmatch(rb"\[supervisor\] (\d+) bytes of output were dropped here\.", notice)
    assert match is not None
    assert rest == b"".join(lines[500:4600])[int(match[1]) :]
    assert everything(local).endswith(rest[-20_000:])


@pytest.mark.parametrize(("code", "is_kept"), [(errno.EMFILE, True), (errno.EIO, True), (errno.ENOSPC, False)])
def test_only_a_full_disk_costs_older_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_kept: bool
) -> None:
    path = output_path(tmp_path, "OrionMX")
    path.parent.mkdir()
    path.with_name("OrionMX.log.1").write_text("older\n")
    path.write_text("newer\n" * 100)
    before = everything(path)

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr("supervisor_core.processes.output.capture.write_all", fail)
        with contextlib.suppress(OSError):
            WorkerOutput(path).rotate(100, 2)
    assert everything(path) == (before if is_kept else b"")
    assert not list(path.parent.glob(".*copy*"))
    path.write_text("newest\n" * 100)
    WorkerOutput(path).rotate(100, 2)
    assert everything(path).endswith(b"newest\n" * 14)


@pytest.mark.parametrize("missing", [1, 2])
def test_a_full_file_is_emptied_also_if_an_older_one_was_removed_by_hand(tmp_path: Path, missing: int) -> None:
    path = output_path(tmp_path, "OrionMX")
    path.parent.mkdir()
    for number in {1, 2, 3} - {missing}:
        path.with_name(f"OrionMX.log.{number}").write_text(f"older {number}\n")
    path.write_text("newer\n" * 20)
    before = everything(path)
    WorkerOutput(path).rotate(100, 4)
    assert path.stat().st_size == 0
    assert everything(path) == before
    assert not list(path.parent.glob(".*copy*"))
