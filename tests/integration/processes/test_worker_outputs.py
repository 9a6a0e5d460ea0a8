"""Captured output whose files a person touched, and the service that looks after all of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from supervisor_core.processes.output.files import drive_log, output_path
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.output.delivery import maintain_output
from supervisor_core.workers.output.service import WorkerOutputs
from tests.support.intake.handler_hosts import FakeHost
from tests.support.storage.forwarded_rows import opened
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
        await outputs.initialise()
        running = asyncio.create_task(outputs.run(stopping))
        await asyncio.to_thread(wait_until, there.exists, message="the first lines on the drive")
        (folder / "Gone.log").unlink()
        with (folder / "OrionMX.log").open("a") as worker:
            worker.write("second\n")
        both = "first\nsecond\n"
        await asyncio.to_thread(wait_until, lambda: there.read_text() == both, message="the next line on the drive")
        outputs._forget_removed()  # noqa: SLF001 (else some hours later)
        stopping.set()
        await running
        await outputs.shut_down()

    with opened(host.config.state_dir) as ledger:
        asyncio.run(story(DaemonContext(host, ledger)))
