"""Timing whole programs side by side: taken in turns, so that a busy moment of the machine hits all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROUNDS = 40


def milliseconds(program: Sequence[str], environ: Mapping[str, str], folder: Path) -> float:
    """From the start of a program to its end, waited for without polling."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
        before = Path.cwd()
        os.chdir(folder)
        begun = time.perf_counter()
        pid = os.posix_spawn(program[0], list(program), dict(environ), file_actions=actions)
        os.waitpid(pid, 0)
        taken = (time.perf_counter() - begun) * 1000
        os.chdir(before)
    finally:
        os.close(null)
    return taken


def in_turns(
    programs: Mapping[str, Sequence[str]], environ: Mapping[str, str], folder: Path, rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """The times of each program, all of them run once in each round, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(rounds + 1):
        for name, program in programs.items():
            taken = milliseconds(program, environ, folder)
            if turn:
                times[name].append(taken)
    return times
