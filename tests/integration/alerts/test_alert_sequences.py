"""What no sequence of looks, people, clocks and restarts may bring about; with a real desk and ledger, and with quiet
hours, maintenance, mutes, snoozes, flapping and escalation in play."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from supervisor_core.alerts import flips
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.grouping.rules import GATHER
from supervisor_core.alerts.rules import LIVE, Alert, AlertState, Reason
from supervisor_core.workers.conditions import FLAPPING, WORKER, Condition, Severity, Target
from supervisor_core.workers.health import WorkerState
from tests.support.alerts.alert_service import AlertDesk
from tests.support.sampling import examples
from tests.support.storage.ledger_rows import alerts_of

NAMES = st.sampled_from(["North", "South"])
MINUTE = timedelta(minutes=1)
QUIET = (9 * 60 + 30, 10 * 60 + 30)
"""The minutes of the day in which it is quiet; the story begins at 9."""

WORK = (9 * 60 + 45, 10 * 60)
"""The minutes in which South is in maintenance."""


class Sequences(RuleBasedStateMachine):
    """Two workers, and whatever may happen to them in some hours."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.muted: dict[str, datetime] = {}
        self.unmuted: dict[str, datetime] = {}
        self.posts: dict[str, int] = {}

    @initialize(open_after=st.sampled_from([0, 20]), close_after=st.sampled_from([0, 45]))
    def begin(self, open_after: int, close_after: int) -> None:
        self.open_after = timedelta(seconds=open_after)
        said = {
            "open_after_seconds": open_after,
            "close_after_seconds": close_after,
            "renotify_minutes": 7,
            "flapping": {"flips": 4, "within_minutes": 5},
            "escalation": [{"after_minutes": 3, "to": ["U0BEN"]}, {"after_minutes": 12, "to": ["C0BOSS"]}],
            "quiet_hours": [{"from": "09:30", "to": "10:30"}],
            "maintenance": [{"target": "South", "cron": "45 9 * * *", "minutes": 15}],
        }
        self.desk = Checked(self, Path(self._folder.name), "North", "South", "West", alerts=said)
        self.desk.well("North", "South", "West")

    # --- what may happen

    @rule(name=NAMES)
    def falls(self, name: str) -> None:
        self.desk.down(name)

    @rule(name=NAMES)
    def degrades(self, name: str) -> None:
        self.desk.degraded(name)

    @rule(name=NAMES)
    def recovers(self, name: str) -> None:
        self.desk.well(name)

    @rule(name=NAMES)
    def is_paused(self, name: str) -> None:
        self.desk.look(self.desk.status(name, WorkerState.STOPPED, inactive_reason="paused by ann"))

    @rule(name=NAMES, seconds=st.integers(1, 400))
    def comes_and_goes(self, name: str, seconds: int) -> None:
        for _ in range(2):
            self.desk.down(name)
            self.desk.wait(seconds / 4)
            self.desk.well(name)

    @rule(minutes=st.sampled_from([0.1, 1, 4, 10, 30]))
    def time_goes_by(self, minutes: float) -> None:
        self.desk.wait(minutes * 60)

    @rule(name=NAMES)
    def somebody_acknowledges(self, name: str) -> None:
        for alert in self._shown(name):
            self.desk.alerts.acknowledge(alert.alert_id, self.desk.request(), self.desk.now)
        self.desk.work()

    @rule(name=NAMES, minutes=st.integers(1, 20))
    def somebody_snoozes(self, name: str, minutes: int) -> None:
        for alert in self._shown(name):
            self.desk.alerts.snooze(alert.alert_id, self.desk.request(), minutes * 60, self.desk.now)
        self.desk.work()

    @rule(name=NAMES, minutes=st.integers(1, 20))
    def somebody_mutes(self, name: str, minutes: int) -> None:
        self.desk.alerts.mute([name], minutes * 60, self.desk.request(), self.desk.now)
        self.muted[name] = self.desk.now + minutes * MINUTE
        self.desk.work()

    @rule(name=NAMES)
    def somebody_unmutes(self, name: str) -> None:
        self.desk.alerts.unmute([name], self.desk.request(), self.desk.now)
        self.muted.pop(name, None)
        self.unmuted[name] = self.desk.now
        self.desk.work()

    @rule()
    def the_daemon_is_restarted(self) -> None:
        self.desk.restart()
        self.desk.work()

    @rule()
    def slack_goes_or_comes_back(self) -> None:
        self.desk.away = not self.desk.away
        self.desk.tell()

    # --- what must hold

    @invariant()
    def an_alert_is_open_exactly_while_its_condition_holds(self) -> None:
        for target, live in self._targets():
            standing = self._standing(target)
            assert len(live) <= 1, "a target has one alert at a time"
            if standing is None or standing.fine:
                assert all(alert.cleared_at is not None for alert in live)
                assert all(alert.due_at is not None for alert in live), "somebody will close it"
            else:
                assert [alert.condition for alert in live] == [standing]
                assert live[0].cleared_at is None

    @invariant()
    def what_is_part_of_another_is_so_while_that_one_is_there(self) -> None:
        live = {each.alert_id for each in self.desk.ledger.read(partial(alerts.in_states, states=LIVE))}
        for _, found in self._targets():
            assert all(alert.parent_id is None or alert.parent_id in live for alert in found)

    @invariant()
    def nothing_that_is_due_is_left(self) -> None:
        due = self.desk.alerting.due_at()
        assert due is None or due > self.desk.now

    def teardown(self) -> None:
        """When all is quiet again, nothing is open; and a first alarm comes at its moment, whatever came before."""
        desk = self.desk
        desk.away = False
        desk.well("North", "South")
        for name in ("North", "South"):
            self.somebody_unmutes(name)
        desk.wait(3600 * 2)  # more than quiet hours, and than flapping needs to be over
        assert [alert for _, found in self._targets() for alert in found] == []
        desk.heard()
        began = desk.now
        desk.down("North", "West")
        desk.wait(60)
        for name in ("North", "West"):
            called = desk.one(name).calling_since
            assert called is not None
            assert began + self.open_after <= called <= began + self.open_after + GATHER
        assert sum(each.startswith("post") for each in desk.heard()) == 2
        desk.ledger.close()
        self._folder.cleanup()

    # --- how it is

    def hushed(self, alert: Alert, now: datetime) -> bool:
        """Whether nobody is to be told of this, by what this story knows itself."""
        name, minute = alert.target.worker, now.hour * 60 + now.minute
        planned = name == "South" and WORK[0] <= minute < WORK[1]
        since = now.replace(hour=WORK[0] // 60, minute=WORK[0] % 60, second=0, microsecond=0)
        planned = planned and not since <= self.unmuted.get(name, since - MINUTE) <= now
        quiet = alert.severity is Severity.WARNING and QUIET[0] <= minute < QUIET[1]
        return planned or quiet or now < self.muted.get(name, now)

    def _shown(self, name: str) -> list[Alert]:
        return [alert for alert in self.desk.alerts.shown() if alert.target.id == name]

    def _targets(self) -> Iterable[tuple[Target, list[Alert]]]:
        for name in ("North", "South", "West"):
            for kind in (WORKER, FLAPPING):
                target = Target(kind, name)
                found = self.desk.ledger.read(partial(alerts_of, target=target, limit=100))
                yield target, [alert for alert in found if alert.state in LIVE]

    def _standing(self, target: Target) -> Condition | None:
        found = self.desk.ledger.read(lambda connection: flips.current_condition(connection, "TestHost", target))
        return found.condition if found else None


class Checked(AlertDesk):
    """Looks after each round at what was just told."""

    def __init__(self, story: Sequences, folder: Path, *workers: str, alerts: object) -> None:
        self._story = story
        super().__init__(folder, *workers, alerts=alerts)

    def work(self) -> None:
        super().work()
        for alert in self.all_alerts():
            if alert.told_at == self.now and alert.state is not AlertState.CLOSED and Reason(alert.decided).tells:
                assert not self._story.hushed(alert, self.now), f"{alert.target.id} is to be quiet"


Sequences.TestCase.settings = settings(max_examples=examples(15), stateful_step_count=25, deadline=None)
TestNoSequence = Sequences.TestCase
