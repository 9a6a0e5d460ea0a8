"""The fault matrix: what is true after a fault, with ours, supervisord and circus at the same moment."""

from __future__ import annotations

from tests.support.daemon.peers.matrix import HEADINGS, line, tried
from tests.support.daemon.peers.rows import TOGETHER

PATIENCE_SECONDS = 30.0
"""For so long the peers are watched in a fault that they may never notice."""


def measure() -> str:
    """Every row; what is not as it should be is in bold."""
    lines = [HEADINGS]
    for rows in TOGETHER:
        found = tried(*rows, patience=PATIENCE_SECONDS)
        lines += [line(row, each) for row, each in zip(rows, found, strict=True)]
    return "\n".join(lines)
