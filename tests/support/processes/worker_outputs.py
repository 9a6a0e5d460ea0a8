"""Workers that print numbered lines, and what became of the lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor_core.host.logging.excerpts import start_time


def without_start_lines(text: str) -> str:
    """What the worker itself has written."""
    return "".join(line for line in text.splitlines(keepends=True) if start_time(line.rstrip("\n")) is None)


LINE = "line {:08d} of what it prints\n"
LINE_BYTES = len(LINE.format(0))

PROGRAM = f"""
import os, sys, time
rate, seconds, signal = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
while signal and not os.path.exists(signal):
    time.sleep(0.01)
begun, number = time.monotonic(), 0
step = max(0.005, {LINE_BYTES} / rate)
while (passed := time.monotonic() - begun) < seconds:
    lines = [{LINE!r}.format(each) for each in range(number, number + max(int(rate * step / {LINE_BYTES}), 1))]
    os.write(1, "".join(lines).encode())
    number += len(lines)
    time.sleep(step)
print("done", flush=True)
time.sleep(1e6)
"""
"""Never writes faster than it says, even where it has been kept from writing for a while."""


def counting(bytes_per_second: float, seconds: float, signal: str = "", **settings: Any) -> dict[str, Any]:
    """A worker that prints so much for so long, once a file is there, and then rests. It never touches the drive."""
    program = PROGRAM.replace("{", "{{").replace("}", "}}")
    place = ["--worker-id", "{worker_id}"]
    command = ["{python}", "-c", program, str(bytes_per_second), str(seconds), signal, *place]
    usual = {"command": command, "start_grace_seconds": 0.1, "stop_timeout_seconds": 5, "heartbeat_max_age_seconds": 0}
    return {**usual, **settings}


def everything(path: Path) -> bytes:
    """What is in a file and its older ones, in order."""
    older = sorted(path.parent.glob(f"{path.name}.*"), key=lambda each: int(each.suffix[1:]), reverse=True)
    return b"".join(each.read_bytes() for each in (*older, path) if each.exists())


def numbers(data: bytes) -> list[int]:
    """The numbers of all whole lines."""
    lines = data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1].decode().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("line ")]


def in_order(found: list[int]) -> bool:
    """Each line is there once, and hardly one is missing: what is written just when a full file is emptied is lost."""
    return found == sorted(set(found)) and len(found) >= 0.9 * (found[-1] - found[0] + 1)
