"""Memory and CPU time of real processes with their descendants."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import psutil

from supervisor_core.host.process_facts.usage import usage_of, with_usage
from tests.support.waiting import wait_until

BUSY = "import time\ntext = 'x' * 30_000_000\nwhile time.process_time() < 0.5: pass\ntime.sleep(60)"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_a_child_counts_for_its_parent() -> None:
    words = [sys.executable, "-c", PARENT, BUSY]
    with subprocess.Popen(words) as parent:
        try:
            wait_until(lambda: usage_of([parent.pid])[parent.pid].cpu_seconds > 0.4, 30, "the child is counted")
            assert usage_of([parent.pid])[parent.pid].memory_bytes > 30_000_000
        finally:
            for child in psutil.Process(parent.pid).children():
                child.kill()


def test_one_that_has_ended_has_none() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    workers: list[dict[str, Any]] = [
        {"id": "Here", "pid": os.getpid()},
        {"id": "Gone", "pid": ended.pid},
        {"id": "None", "pid": None},
    ]
    here, gone, none = with_usage(workers, {"Here": "1a2b"})
    assert here["commit"] == "1a2b"
    assert here["memory_bytes"] > 1_000_000
    for each in (gone, none):
        assert (each["commit"], each["memory_bytes"], each["cpu_seconds"]) == (None, None, None)
    assert usage_of([]) == {}
