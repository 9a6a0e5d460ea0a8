"""Whoever delivers output to the drive is killed again and again: no line is lost, and none is there twice."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from supervisor_core.processes.output.capture import WorkerOutput
from supervisor_core.workers.output.delivery import DriveLog, deliver_piece
from tests.support.homes import ROOT
from tests.support.processes.worker_outputs import (
    LINE,
    a_folder_that_loses_nothing,
    everything,
    in_one_row,
    numbers,
)
from tests.support.sampling import rounds
from tests.support.waiting import wait_until

ROUNDS = rounds(20, sample=6)
LIMIT, BACKUPS = 32 * 1024, 900
"""So small that both files are begun anew all the time, and so many that all of it is kept."""

DELIVERING = f"""
import sys
from pathlib import Path
from supervisor_core.workers.output.delivery import DriveLog, deliver_piece
from supervisor_core.processes.output.capture import WorkerOutput

local, drive = Path(sys.argv[1]), Path(sys.argv[2])
output = WorkerOutput(local)
print("ready", flush=True)
while True:
    output.bound({LIMIT}, {BACKUPS})
    if not deliver_piece(output, DriveLog(drive, drive / "North.log", 0o640, {LIMIT}, {BACKUPS})):
        output.keep_progress()
"""


@pytest.mark.sampled
def test_however_often_whoever_delivers_is_killed_all_lines_arrive_once_and_in_order() -> None:
    with a_folder_that_loses_nothing() as folder:
        deliver_and_kill(folder)


def deliver_and_kill(folder: Path) -> None:
    local, drive, done = folder / "North.log", folder / "drive", threading.Event()
    drive.mkdir()
    written = 0

    def write() -> None:
        nonlocal written
        with local.open("ab", buffering=0) as worker:
            while not done.wait(0.001):
                worker.write("".join(LINE.format(written + each) for each in range(30)).encode())
                written += 30

    writing, chance = threading.Thread(target=write), random.Random(7)
    writing.start()
    wait_until(local.exists, 5, "the worker writes")
    for _ in range(ROUNDS):
        program = [sys.executable, "-c", DELIVERING, str(local), str(drive)]
        delivering = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE)
        assert delivering.stdout is not None
        delivering.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.15))  # where it is hit doesn't matter, only that it is hit anywhere
        delivering.kill()
        delivering.communicate()
    done.set()
    writing.join()
    output = WorkerOutput(local)
    output.bound(LIMIT, BACKUPS)
    while deliver_piece(output, DriveLog(drive, drive / "North.log", 0o640, LIMIT, BACKUPS)):
        pass
    found = numbers(b"\n" + everything(drive / "North.log"))
    assert in_one_row(found)
    assert (found[0], len(found)) == (0, written)
