"""The desk's alerts on a fake clock: a real ledger, looks that a story makes up, and the very messages that people see.

`AlertDesk` has what a daemon has between the looks at its workers and the outbox; `seen` are the messages in the order
in which Slack got them, rendered by the very code that renders them for Slack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import Connection

from bot.outbound.content import MessageComposer, alert_details
from bot.outbound.messages import KINDS, is_orphaned, with_thread
from bot.views.blocks import without_blocks
from bot.views.cards.alert import alert_card
from slack_playground.blockkit.messages import check_message
from supervisor_core.alerts import flips
from supervisor_core.alerts.actions import AlertRequest, AlertService
from supervisor_core.alerts.flips import Flip
from supervisor_core.alerts.monitor import AlertMonitor
from supervisor_core.alerts.rules import Alert
from supervisor_core.alerts.weekly import WeeklyChore
from supervisor_core.commands.command import Issuer
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Condition, Reading, Target
from supervisor_core.workers.health import Heartbeat, WorkerState
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason
from supervisor_core.workers.status import WorkerStatus
from tests.support.daemon.worker_statuses import worker_status
from tests.support.storage.ledger_rows import alerts_of

BEGINNING = datetime(2026, 2, 5, 9, 0, tzinfo=UTC)
CHANNEL = "C0OPS"
ANN = Issuer("slack:T0/U0ANN", "ann")
NEVER = RestartDecision(
    Next.REST, RestartReason.POLICY_NEVER, "exited (code 1) after 5 min. Not restarted: restart.policy is never"
)
DAY = timedelta(days=1)


class AlertDesk:
    """One host with some workers, and a clock that only the story moves."""

    def __init__(self, folder: Path, *workers: str, **settings: Any) -> None:
        (folder / "var").mkdir(mode=0o700, exist_ok=True)
        (folder / "nas").mkdir(exist_ok=True)
        self.folder = folder
        self.workers = workers
        self.settings = settings
        self.now = BEGINNING
        self.resting = False
        self.away = False
        """Whether Slack is."""
        self.full = False
        """Whether all of a message is kept, not its first line alone."""
        self.seen: list[str] = []
        self.times: list[tuple[datetime, str]] = []
        """The same with the time, never taken away."""
        self.config: SupervisorConfig
        self._requests = 0
        self.configure()
        self.ledger = Ledger(folder / "var" / LEDGER_FILE, "TestHost")
        self.alerting = self.restart()
        self.alerts = AlertService(self.ledger)

    def configure(self, *workers: str) -> None:
        """With these workers from now on; with those there are where none are named."""
        self.workers = workers or self.workers
        document = {
            "supervisor": {"id": "TestHost", "state_dir": "var"},
            "nas": {"root": "nas", "layout": "cornerstone"},
            "workers": {each: {"command": ["sleep", "1"]} for each in self.workers},
            "slack": {"enabled": True, "alert_channel": CHANNEL, **self.settings.get("slack", {})},
            "alerts": self.settings.get("alerts", {}),
        }
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(document))
        self.config = load_supervisor_config(path)

    def restart(self) -> AlertMonitor:
        """Another daemon, which knows what is in the ledger and nothing else."""
        self.alerting = AlertMonitor(self.ledger, lambda: self.config, lambda: self.resting)
        self.weekly = WeeklyChore(self.ledger, lambda: self.config)
        return self.alerting

    # --- what is seen

    def look(self, *statuses: WorkerStatus) -> None:
        """The reconciler has looked at these."""
        self.alerting.see(statuses)
        self.work()

    def well(self, *names: str) -> None:
        """They run, and have just said so."""
        self.look(*(self.status(name) for name in names))

    def starts(self, *names: str) -> None:
        """They were just started, and may not hold."""
        self.look(*(self.status(name, started_at=self.now, heartbeat=None, max_age_seconds=0.0) for name in names))

    def down(
        self,
        *names: str,
        decision: RestartDecision | None = NEVER,
        ended: float = 0.0,
        lived: float | None = None,
        words: str = "",
    ) -> None:
        """They have ended by themselves."""
        at = self.now - timedelta(seconds=ended)
        began = None if lived is None else at - timedelta(seconds=lived)
        known = {"died": True, "decision": decision, "ended_at": at, "started_at": began, "end_words": words}
        self.look(*(self.status(name, WorkerState.STOPPED, **known) for name in names))

    def degraded(self, *names: str, error: str = "no space left") -> None:
        """They run, and say that something is wrong."""
        self.look(*(self.status(name, heartbeat=Heartbeat("running", self.now, error=error)) for name in names))

    def stale(self, *names: str, ago: float = 301.0) -> None:
        """They run, and have not said so for too long."""
        beat = Heartbeat("running", self.now - timedelta(seconds=ago))
        self.look(*(self.status(name, heartbeat=beat, max_age_seconds=300.0) for name in names))

    def observe(self, target: Target, condition: Condition, words: str) -> None:
        """A part of the host was looked at."""
        self.alerting.observe(target, Reading(condition, words, self.now))
        self.work()

    def status(self, name: str, state: WorkerState = WorkerState.RUNNING, **known: Any) -> WorkerStatus:
        """The status of one worker."""
        beat = {"heartbeat": Heartbeat("running", self.now), "started_at": self.now - DAY}
        return worker_status(name, self.now, state, **{**(beat if state is WorkerState.RUNNING else {}), **known})

    # --- time

    def wait(self, seconds: float) -> None:
        """Time goes by; what is due is dealt with at its moment, as the scheduler does."""
        until = self.now + timedelta(seconds=seconds)
        while (due := self.due_at()) is not None and due <= until:
            self.now = max(self.now, due)
            self.work()
        self.now = until

    def due_at(self) -> datetime | None:
        """When something must be dealt with although nothing is seen."""
        return min((each for each in (self.alerting.due_at(), self.weekly.due_at()) if each is not None), default=None)

    def work(self) -> None:
        """What is new is dealt with and told."""
        self.alerting.work(self.now)
        self.weekly.work(self.now)
        self.tell()

    # --- what people do

    def request(self, reason: str = "") -> AlertRequest:
        """Somebody asks for something."""
        self._requests += 1
        return AlertRequest(ANN, "slack", f"task_{self._requests}", reason)

    # --- what people see

    def tell(self) -> None:
        """Everything that waits is told, unless Slack is away."""
        while not self.away and self.ledger.write(self._tell):
            pass

    def tell_all(self) -> None:
        """Slack takes what there is, once."""
        away, self.away = self.away, False
        self.tell()
        self.away = away

    def _tell(self, connection: Connection) -> bool:
        """What may be told now; whether there was anything. What stands below a message waits for it."""
        found = outbox.pending_messages(connection, KINDS, self.now)
        for waiting in found:
            message = with_thread(connection, waiting)
            if is_orphaned(message):
                self.ledger_step(connection, outbox.mark_dropped(message, "lost", self.now))
                continue
            content = MessageComposer().content(connection, message, self.now)
            if content is None:
                self.ledger_step(connection, outbox.mark_dropped(message, "nothing", self.now))
                continue
            assert check_message(content) == []
            how = "edit" if message.address.get("ts") else "reply" if message.payload.get("thread_ts") else "post"
            said = " / ".join(str(without_blocks(content)["text"]).split("\n")) if self.full else plain(content)
            line = f"{self.now:%H:%M:%S} {how}: {said}"
            if not self.seen or self.seen[-1] != line:
                self.seen.append(line)
                self.times.append((self.now, line.partition(" ")[2]))
            address = message.address or {"channel": message.payload["channel"], "ts": f"{len(self.seen)}.0"}
            self.ledger_step(connection, outbox.mark_sent(message, self.now, address))
        return bool(found)

    def ledger_step(self, connection: Connection, step: Any) -> None:
        from supervisor_core.storage import steps

        assert steps.take(connection, "TestHost", step, self.now)

    def shown(self, name: str) -> dict[str, Any]:
        """The message of this worker's newest alert as it would be now."""
        alert_id = self.one(name).alert_id
        told = self.ledger.read(lambda connection: alert_details(connection, alert_id, self.now))
        assert told is not None
        return alert_card(told, self.now)

    def heard(self) -> list[str]:
        """What people saw since they were last asked, without the time."""
        seen, self.seen = self.seen, []
        return [line.partition(" ")[2] for line in seen]

    # --- how it is

    def all_alerts(self) -> list[Alert]:
        """Every alert there ever was, oldest first."""
        found = [each for name in self.workers for each in self.of(name)]
        return sorted(found, key=lambda each: (each.opened_at, each.alert_id))

    def of(self, name: str) -> list[Alert]:
        """The alerts of this worker, newest first."""
        return self.ledger.read(lambda connection: alerts_of(connection, Target(WORKER, name)))

    def one(self, name: str) -> Alert:
        """Its newest alert."""
        return self.of(name)[0]

    def flips(self, name: str) -> list[Flip]:
        """What happened to this worker."""
        return self.ledger.read(
            lambda connection: flips.flips_of_target(connection, Target(WORKER, name), BEGINNING, self.now + DAY)
        )

    def trail(self) -> list[tuple[str, str]]:
        """The audit trail, oldest first: action and target."""
        rows = self.ledger.read(lambda connection: search(connection, AuditFilter(limit=100)))
        return [(row["action"], row["target_id"]) for row in reversed(rows)]


SIGNS = r"^:(red_circle|large_yellow_circle|no_bell|eyes|zzz|white_check_mark|leftwards_arrow_with_hook|sunrise): "


def plain(content: dict[str, Any]) -> str:
    """The first line of a message, as it is read aloud."""
    text = str(content["text"]).split("\n")[0]
    return re.sub(SIGNS, "", text).replace("*", "")


@contextmanager
def an_alert_desk(folder: Path, *workers: str, **settings: Any) -> Iterator[AlertDesk]:
    """A desk whose ledger is closed at the end."""
    desk = AlertDesk(folder, *(workers or ("North", "South")), **settings)
    try:
        yield desk
    finally:
        desk.ledger.close()
