"""Power that goes at each step of a night: quiet hours, escalation, flapping and the week come to the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.common import crashpoints
from supervisor_core.workers.status import WorkerStatus
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.programs.armed import distinct

POINTS = (
    "suppressions_t.window:before",
    "suppressions_t.window:after",
    "flips_t.written:before",
    "flips_t.written:after",
    "alerts_t.decided:before",
    "alerts_t.decided:after",
    "outbox_t.week:before",
    "outbox_t.week:after",
)
SETTINGS = {
    "quiet_hours": [{"days": "mon", "from": "06:00", "to": "08:00"}],
    "maintenance": [{"target": "South", "cron": "0 7 * * mon", "minutes": 30}],
    "escalation": [{"after_minutes": 10, "to": ["U0BEN", "C0BOSS"]}],
    "flapping": {"flips": 4, "within_minutes": 10},
}


class PowerGoesError(BaseException):
    """Nothing catches it, as nothing catches the end of a process."""


class Mortal(AlertDesk):
    """Dies at each step of this name, again and again, and is started anew each time."""

    last: tuple[WorkerStatus, ...] = ()

    def work(self) -> None:
        while True:
            try:
                super().work()
            except PowerGoesError:
                self.restart()
                self.look_again()
                continue
            return

    def look_again(self) -> None:
        """A daemon that comes up looks at all workers."""
        self.alerting.see(self.last)

    def look(self, *statuses: WorkerStatus) -> None:
        self.last = tuple({each.worker_id: each for each in (*self.last, *statuses)}.values())
        super().look(*statuses)


def story(desk: AlertDesk) -> list[str]:
    """Four days, and the Monday after them."""
    desk.well("North", "South")
    desk.wait((3 * 24 + 21) * 3600)
    desk.degraded("South")  # Monday, at six: it is quiet
    desk.down("North")
    desk.wait(20 * 60)
    for _ in range(2):
        desk.well("North")
        desk.wait(30)
        desk.down("North")
        desk.wait(30)
    desk.well("North")
    desk.wait(5 * 3600)
    return desk.heard()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What people see while the power stays."""
    with an_alert_desk(tmp_path_factory.mktemp("calm"), alerts=SETTINGS) as calm:
        return story(calm)


@pytest.mark.parametrize("point", distinct(POINTS))
def test_power_that_goes_at_each_step_changes_nothing_that_people_see(
    point: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [each.split(" ")[1] for each in expected].count("Quiet") == 1
    died: set[int] = set()
    cut = Mortal(tmp_path, "North", "South", alerts=SETTINGS)

    def reach(name: str) -> None:
        key = hash((name, cut.now))
        if name == point and key not in died:
            died.add(key)
            raise PowerGoesError

    monkeypatch.setattr(crashpoints, "reach", reach)
    try:
        assert story(cut) == expected
        assert died
    finally:
        cut.ledger.close()
