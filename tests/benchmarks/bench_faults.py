"""The fault matrix: the state after a fault, with ours, supervisord and circus at the same moment."""

from __future__ import annotations

from tests.benchmarks.rows import Row
from tests.support.daemon.peers.matrix import tried
from tests.support.daemon.peers.rows import TOGETHER

PATIENCE_SECONDS = 30.0
"""For so long the peers are watched in a fault that they may never notice."""


def measure() -> list[Row]:
    """Every fault. A result that isn't as it should be is in bold."""
    return [
        Row(row.fault, name, words=finding.words if finding.right else f"**{finding.words}**")
        for rows in TOGETHER
        for row, found in zip(rows, tried(*rows, patience=PATIENCE_SECONDS), strict=True)
        for name, finding in found.items()
    ]
