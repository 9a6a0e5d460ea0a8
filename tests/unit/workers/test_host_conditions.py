"""The conditions of a host, from what was seen of its parts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from supervisor_core.workers.conditions import (
    GIB,
    Condition,
    DiskSpace,
    HostFacts,
    InterruptedCommand,
    Outage,
    Reading,
    Target,
    read_host,
)

NOW = datetime(2026, 2, 5, 12, tzinfo=UTC)
FACTS = HostFacts("Host", NOW)
DRIVE, DISK, DATABASE, CLOCK = (Target(kind, "Host") for kind in ("drive", "disk", "database", "clock"))
COMMAND = Target("command", "North")
OTHER = Target("supervisor", "Other")


def seen(**more: Any) -> dict[Target, Reading]:
    return {each.target: each.reading for each in read_host(replace(FACTS, **more))}


def test_what_could_not_be_looked_at_is_not_said_to_be_well() -> None:
    assert set(seen()) == {DRIVE, CLOCK}
    assert all(reading.condition is Condition.WELL for reading in seen().values())


def test_a_drive_that_cannot_be_reached_comes_before_one_that_is_full() -> None:
    away = Outage("The drive at /mnt hangs", NOW - timedelta(seconds=9))
    reading = seen(drive=away, drive_room=DiskSpace(0, 100 * GIB))[DRIVE]
    assert reading == Reading(Condition.DRIVE_UNREACHABLE, away.words, away.since)
    assert seen(drive_room=DiskSpace(0, 100 * GIB))[DRIVE].condition is Condition.DISK_LOW


def test_a_disk_is_low_when_little_is_free_by_share_and_by_size() -> None:
    def condition(free: float, total: float, **more: Any) -> Condition:
        return seen(disk_room=DiskSpace(int(free * GIB), int(total * GIB)), **more)[DISK].condition

    assert condition(100, 10_000) is Condition.WELL, "one per cent of ten terabytes is room for long"
    assert condition(10, 10_000) is Condition.DISK_LOW
    assert condition(5, 20) is Condition.WELL
    assert condition(0.9, 20) is Condition.DISK_LOW
    assert condition(0.4, 2) is Condition.DISK_LOW, "whatever its share"
    assert condition(1.1, 20, known={DISK: Condition.DISK_LOW}) is Condition.DISK_LOW, "not yet enough again"
    assert condition(1.1, 20) is Condition.WELL
    assert condition(1.3, 20, known={DISK: Condition.DISK_LOW}) is Condition.WELL


def test_the_shared_database_counts_where_there_is_one() -> None:
    away = Outage("It does not answer", NOW)
    assert seen(shared_database=True)[DATABASE].condition is Condition.WELL
    assert seen(shared_database=True, database=away)[DATABASE].condition is Condition.DATABASE_UNREACHABLE


def test_one_worker_from_the_future_has_a_clock_of_its_own_and_half_of_them_have_the_hosts() -> None:
    assert seen(running=2, skewed=["A"])[CLOCK].condition is Condition.WELL
    assert seen(running=5, skewed=["A", "B"])[CLOCK].condition is Condition.WELL
    assert seen(running=4, skewed=["A", "B"])[CLOCK].condition is Condition.CLOCK_SKEW


def test_a_command_that_was_cut_off_is_asked_about_for_a_day_or_until_somebody_has_seen_to_it() -> None:
    cut = InterruptedCommand("North", "update_code (t1): it was interrupted", NOW - timedelta(hours=23))
    assert seen(cut_off=[cut])[COMMAND] == Reading(Condition.INTERRUPTED, cut.words, cut.at)
    asked = {COMMAND: Condition.INTERRUPTED}
    for over in (cut._replace(at=NOW - timedelta(days=1)), cut._replace(acknowledged=True)):
        assert COMMAND not in seen(cut_off=[over]), "nobody was asked"
        assert seen(cut_off=[over], known=asked)[COMMAND].condition is Condition.WELL
    assert seen(known=asked)[COMMAND].condition is Condition.WELL


def test_a_supervisor_is_silent_until_it_is_not_among_those_that_are() -> None:
    assert seen(silent={"Other": "3 heartbeats are missing"})[OTHER].condition is Condition.SUPERVISOR_SILENT
    known = {OTHER: Condition.SUPERVISOR_SILENT}
    assert OTHER not in seen(known=known), "nobody has looked"
    assert seen(known=known, silent={})[OTHER].condition is Condition.WELL


def test_a_host_of_the_fleet_responds_again_only_once_the_hub_has_heard_it() -> None:
    known = {OTHER: Condition.SUPERVISOR_SILENT}
    assert OTHER not in seen(known=known, silent={"Other": None}), "the hub has just started"
    assert seen(known=known, silent={"Other": ""})[OTHER] == Reading(Condition.WELL, "it responds again", NOW)
    assert OTHER not in seen(silent={"Other": ""})
