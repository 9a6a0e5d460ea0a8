"""Samples of how old a heartbeat was: the oldest of each five minutes, a week of them, whatever happens to the file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor_core.workers.heartbeats.files import KEPT, SAMPLE, HeartbeatAges, read_ages

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
FIVE = timedelta(minutes=5)


def kept(folder: Path, since: datetime = NOW - timedelta(days=30)) -> list[tuple[datetime, float]]:
    return [(age.at, age.seconds) for age in read_ages(folder, "North", since, NOW + timedelta(days=30))]


def place(folder: Path) -> Path:
    (folder / "workers").mkdir(exist_ok=True)
    return folder / "workers" / "North.ages"


def test_of_each_five_minutes_the_oldest_is_kept_once_they_are_over(tmp_path: Path) -> None:
    path, ages = place(tmp_path), HeartbeatAges(tmp_path)
    for seconds, age in ((0, 10.0), (60, 70.0), (120, 5.0), (300, 20.0), (600, -3.0), (900, 1.0)):
        ages.seen("North", age, NOW + timedelta(seconds=seconds))
    assert kept(tmp_path) == [(NOW, 70.0), (NOW + FIVE, 20.0), (NOW + 2 * FIVE, 0.0)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_ages(tmp_path, "North", NOW + FIVE, NOW + FIVE)[0].seconds == 20.0
    assert read_ages(tmp_path, "South", NOW, NOW) == []


def test_no_more_than_two_weeks_are_on_the_disk_and_the_newest_week_always_is(tmp_path: Path) -> None:
    path, ages = place(tmp_path), HeartbeatAges(tmp_path)
    for number in range(2 * KEPT + 50):
        ages.seen("North", float(number), NOW + FIVE * number)
    assert path.stat().st_size <= 2 * KEPT * SAMPLE.size
    found = read_ages(tmp_path, "North", NOW, NOW + FIVE * 9999)
    assert len(found) >= KEPT
    assert found[-1].seconds == 2 * KEPT + 48


def test_what_a_crash_cut_off_is_overwritten_and_spoils_nothing_after_it(tmp_path: Path) -> None:
    path = place(tmp_path)
    path.write_bytes(SAMPLE.pack(int(NOW.timestamp()), 7.0) + b"\x01\x02\x03")
    ages = HeartbeatAges(tmp_path)
    for number in (1, 2):
        ages.seen("North", 9.0, NOW + FIVE * number)
    assert kept(tmp_path) == [(NOW, 7.0), (NOW + FIVE, 9.0)]


def test_what_can_not_be_written_is_no_trouble(tmp_path: Path) -> None:
    ages = HeartbeatAges(tmp_path / "gone")
    for number in range(3):
        ages.seen("North", 9.0, NOW + FIVE * number)
    assert kept(tmp_path / "gone") == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_anything_may_be_in_the_file(tmp_path: Path, data: bytes) -> None:
    place(tmp_path).write_bytes(data)
    found = read_ages(tmp_path, "North", NOW - timedelta(days=30000), NOW + timedelta(days=30000))
    assert all(age.seconds >= 0 for age in found)
    assert sorted(found) == found
