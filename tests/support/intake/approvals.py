"""A desk for tests of approvals: a real ledger and real doors, people whose rights can be taken, processes that are
fake ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import yaml

from supervisor_core.code.watch.rules import WatchedWorker
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.commands.conditions import Facts
from supervisor_core.common.service import Blocking
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.app import build_scheduler
from supervisor_core.intake.approvals.observed_state import observer
from supervisor_core.intake.approvals.rights import Rights, host_rights
from supervisor_core.intake.approvals.rules import Approval
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.scheduler import Scheduler
from supervisor_core.intake.schedules.runner import no_chat
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import DaemonContext, open_doors
from supervisor_core.workers.pauses import Pause
from tests.support.intake.fake_rights import FakeRights
from tests.support.processes.fake_processes import FakeProcesses

if TYPE_CHECKING:
    from supervisor_core.daemon.reconciler import Reconciler
    from supervisor_core.daemon.services.agent import SupervisorAgent
    from supervisor_core.fleet.hosts import Hosts

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ANNA, BOB, CARL = (Issuer(f"slack:T0/U0{name.upper()}", name) for name in ("anna", "bob", "carl"))
SHELL = Issuer("cli:dora", "dora")
CARD = {"channel": "C0OPS"}


def local_approvals(parts: DaemonContext, rights: Rights | None = None) -> Approvals:
    """The approvals of one host, by its active configuration."""
    preview = observer(lambda: replace(parts.host, ledger=parts.ledger))
    return Approvals(parts.ledger, lambda: parts.host.config, preview, rights)


class FakeHosts:
    """What a scheduler asks about the workers of one host."""

    def __init__(
        self,
        parts: DaemonContext,
        watched: Callable[[Collection[str]], Mapping[str, WatchedWorker]] = lambda _: {},
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._parts, self.watched, self.wake = parts, watched, wake

    @property
    def config(self) -> SupervisorConfig:
        return self._parts.host.config

    def last_lines(self, _worker_id: str, _count: int) -> Sequence[str]:
        return ()

    def facts(self) -> Facts:
        return {}


def a_scheduler(parts: DaemonContext, approvals: Approvals, hosts: FakeHosts) -> Scheduler:
    """The scheduler of a daemon, without the daemon."""
    reconciler = cast("Reconciler", SimpleNamespace(look_again=lambda: None))
    agent = cast("SupervisorAgent", SimpleNamespace(monitoring_paused=False))
    rights = host_rights(lambda: hosts.config)
    return build_scheduler(parts, cast("Hosts", hosts), approvals, Blocking(), agent, reconciler, rights, no_chat)


class Desk:
    """One host with two workers, where a restart needs an approval."""

    def __init__(self, folder: Path, **terms: Any) -> None:
        (folder / "var").mkdir(mode=0o700, exist_ok=True)
        (folder / "nas" / "00_STATE").mkdir(parents=True, exist_ok=True)
        self.path = folder / "config.yaml"
        command = {"command": ["{python}", "-V"]}
        self.document: dict[str, Any] = {
            "supervisor": {"id": "TestHost", "state_dir": "var"},
            "nas": {"root": "nas", "layout": "cornerstone"},
            "workers": {"North": command, "South": command},
            "slack": {
                "access": {"operators": ["U0ANNA"], "approvers": ["S0ADMINS"]},
                "approvals": {"required_for": ["restart"], **terms},
            },
        }
        self._write()
        self.ledger = Ledger(folder / "var" / LEDGER_FILE, "TestHost")
        self.parts = DaemonContext(replace(open_doors(self.config), processes=FakeProcesses()), self.ledger)
        self.rights = FakeRights()
        self.approvals = local_approvals(self.parts, self.rights)

    def configure(self) -> None:
        """Have the document as the configuration from now on."""
        self._write()
        self.parts.host = replace(self.parts.host, config=self.config)

    def _write(self) -> None:
        self.path.write_text(yaml.safe_dump(self.document))
        self.config = load_supervisor_config(self.path, environ={})

    @property
    def gateway(self) -> Gateway:
        """The way in."""
        return Gateway(self.config, self.ledger, self.approvals)

    def ask(
        self, words: str = "restart North hotfix", task_id: str = "task_1", by: Issuer = ANNA, at: datetime = NOW
    ) -> Approval:
        """Somebody asks."""
        command = self.gateway.parse(words).issued(by, task_id)
        return self.approvals.request(command, "slack", CARD, at)

    def pause(self, worker_id: str) -> None:
        """Somebody pauses a worker, so that it is not as it was."""
        open_doors(self.config).pauses.set(worker_id, Pause("cli:bob", label="bob - wait"))

    def jobs(self, task_id: str = "task_1") -> list[Job]:
        """What was filed."""
        return self.ledger.read(lambda connection: jobs.of_task(connection, task_id))

    def end_jobs(self, *, success: bool = True, task_id: str = "task_1", most: int = 99) -> None:
        """Carry them out."""
        for job in self.jobs(task_id)[:most]:
            outcome = Outcome.done() if success else Outcome.failed("It broke.")
            for step in (jobs.claim(job, NOW), jobs.begin(job, NOW), jobs.finish(job, outcome, NOW, 0.1)):
                self.ledger.step(step)

    def trail(self) -> list[dict[str, Any]]:
        """The audit trail, oldest first."""
        rows = self.ledger.read(lambda connection: search(connection, AuditFilter(limit=1000)))
        return sorted(rows, key=lambda row: int(row["audit_id"]))

    def actions(self) -> list[str]:
        """What the trail tells of, oldest first."""
        return [row["action"] for row in self.trail()]


@contextmanager
def a_desk(folder: Path, **terms: Any) -> Iterator[Desk]:
    """A desk with these terms for approvals."""
    made = Desk(folder, **terms)
    with made.ledger:
        yield made
