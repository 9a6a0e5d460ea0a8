"""A row of the fault matrix, tried on all systems at the same time."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.daemon.peers.circus import Circus
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.rows import CRASHING, PEERS_SECONDS, Finding, Row, setting
from tests.support.daemon.peers.supervisord import Supervisord
from tests.support.daemon.peers.system import System

SYSTEMS: tuple[type[System], ...] = (Ours, Supervisord, Circus)
HEADINGS = f"| fault | {' | '.join(system.name for system in SYSTEMS)} |\n|{' --- |' * (len(SYSTEMS) + 1)}"
TROUBLE = (AssertionError, OSError, ValueError, subprocess.SubprocessError)


def tried(
    *rows: Row, patience: float = PEERS_SECONDS, systems: Sequence[type[System]] = SYSTEMS
) -> list[dict[str, Finding]]:
    """What was found with each system, row by row: each has one daemon, and all rows are tried with it at once.

    Where that does not work, the trouble is what was found.
    """
    with ThreadPoolExecutor(len(systems)) as pool:
        found = list(pool.map(lambda kind: _careful(kind, rows, patience), systems))
    return [{kind.name: each[n] for kind, each in zip(systems, found, strict=True)} for n in range(len(rows))]


def line(row: Row, found: Mapping[str, Finding]) -> str:
    """The row as Markdown; what is not as it should be stands out."""
    cells = [each.words if each.right else f"**{each.words}**" for each in found.values()]
    return f"| {row.fault} | {' | '.join(cells)} |"


def _careful(kind: type[System], rows: Sequence[Row], patience: float) -> list[Finding]:
    if reason := kind.missing():
        return [Finding(False, reason)] * len(rows)
    with tempfile.TemporaryDirectory(prefix="p-") as folder:
        system = kind(Path(folder) / "d", setting(Path(folder), rows))
        system.patience = patience
        try:
            system.start(*(mode for mode in system.setting.workers if mode not in CRASHING))
            with ThreadPoolExecutor(len(rows)) as pool:
                return list(pool.map(lambda row: _act(row, system), rows))
        except TROUBLE as error:
            return [_trouble(system, error)] * len(rows)
        finally:
            system.end()


def _act(row: Row, system: System) -> Finding:
    try:
        return row.act(system)
    except TROUBLE as error:
        return _trouble(system, error)


def _trouble(system: System, error: Exception) -> Finding:
    words = " ".join(str(error).split())
    return Finding(False, f"{words}\n{system.log()}" if system.name == Ours.name else f"not measured: {words[:80]}")
