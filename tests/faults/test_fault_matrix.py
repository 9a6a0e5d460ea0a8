"""What is true after a fault: with ours, and in full also with supervisord and circus, printed beside it.

Only ours is held to it, so a sample is without the others. What a peer does may hang on its timing, or get better: it
is shown as it was found (`pytest --full -rP`, or all rows in one table: `python -m tests.benchmarks faults`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from tests.support.daemon.peers import rows
from tests.support.daemon.peers.matrix import HEADINGS, SYSTEMS, line, tried
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.rows import Finding, Row
from tests.support.sampling import in_full
from tests.support.skips import skip_or_fail

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.skipif(sys.platform != "linux", reason="who lives is found through /proc"),
]


def found_with(*found_rows: Row) -> list[dict[str, Finding]]:
    return tried(*found_rows, systems=SYSTEMS if in_full() else (Ours,))


@pytest.fixture(scope="module")
def unattended() -> dict[str, dict[str, Finding]]:
    """A frozen worker, both crash loops and one that is killed, watched at the same time."""
    return dict(zip((row.fault for row in rows.UNATTENDED), found_with(*rows.UNATTENDED), strict=True))


def holds(row: Row, found: Mapping[str, Finding]) -> None:
    print(f"{HEADINGS}\n{line(row, found)}")
    assert found["ours"].right, found["ours"].words


def test_the_peers_are_there_to_be_compared_with() -> None:
    reasons = [reason for system in SYSTEMS if (reason := system.missing())]
    if reasons:
        skip_or_fail("; ".join(reasons))


def test_grandchildren_that_ignore_term_or_left_the_session_are_gone_when_we_say_stopped() -> None:
    for row, found in zip(rows.STOPPING, found_with(*rows.STOPPING), strict=True):
        holds(row, found)


def test_a_killed_supervisor_leaves_one_copy_and_its_successor_adopts_it() -> None:
    holds(rows.SUCCESSOR, *found_with(rows.SUCCESSOR))


def test_a_second_daemon_is_refused_and_harms_nothing() -> None:
    holds(rows.SECOND_DAEMON, *found_with(rows.SECOND_DAEMON))


def test_a_frozen_worker_is_noticed(unattended: dict[str, dict[str, Finding]]) -> None:
    holds(rows.FROZEN, unattended[rows.FROZEN.fault])


def test_a_worker_that_dies_at_once_again_and_again_ends_in_quarantine(
    unattended: dict[str, dict[str, Finding]],
) -> None:
    holds(rows.DIES_AT_ONCE, unattended[rows.DIES_AT_ONCE.fault])


def test_a_worker_that_lives_two_seconds_again_and_again_ends_in_quarantine(
    unattended: dict[str, dict[str, Finding]],
) -> None:
    holds(rows.LIVES_SHORTLY, unattended[rows.LIVES_SHORTLY.fault])


def test_status_never_names_a_dead_pid(unattended: dict[str, dict[str, Finding]]) -> None:
    holds(rows.DEAD_PID, unattended[rows.DEAD_PID.fault])
