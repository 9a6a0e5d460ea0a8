"""The parts a daemon is put together from: its approvals, its scheduler, and its chat.

The core imports no chat. A distribution registers its `ChatPlugin` under the entry point group `supervisor.chat`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from supervisor_core.alerts.decisions import EvidenceCollector
from supervisor_core.alerts.monitor import AlertMonitor
from supervisor_core.alerts.weekly import WeeklyChore
from supervisor_core.code.change_plan import Commit
from supervisor_core.code.watch.rules import WatchedWorker
from supervisor_core.code.watch.service import BakingChore
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import FactSource
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.config.slack_credentials import SlackCredentials
from supervisor_core.daemon.services.monitoring import SetMonitoring
from supervisor_core.daemon.services.retention import RetentionChore
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.intake.approvals.observed_state import Observe, Previews, observer
from supervisor_core.intake.approvals.rights import Rights, host_rights
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.rolling.service import RollingChore
from supervisor_core.intake.scheduler import ApprovalsChore, Scheduler
from supervisor_core.intake.schedules.runner import AnswerCommand, SchedulesChore, no_chat
from supervisor_core.intake.submission import FindCommit
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import DaemonContext, HostContext

if TYPE_CHECKING:
    from supervisor_core.doctor.checks import Check

GROUP = "supervisor.chat"
"""The entry point group in which a distribution registers its chat."""

CHAT = "slack"
"""The entry point that the configuration's section `slack` belongs to."""


def build_approvals(parts: DaemonContext, rights: Rights | None = None, code: CodeReader | None = None) -> Approvals:
    """Build the approvals, by the active configuration. Without a chat's `rights`, the host's own; without `code`, that
    of this host."""
    return Approvals(parts.ledger, lambda: parts.host.config, (code or build_code_reader(parts)).preview, rights)


@dataclass(frozen=True, slots=True)
class CodeReader:
    """Previews commands and lists commits. Both block."""

    preview: Observe
    commits: Callable[[Sequence[str], int], Sequence[Commit]]
    """The newest commits of these workers' checkout that can be reverted, at most so many."""
    find: FindCommit


def build_code_reader(parts: DaemonContext) -> CodeReader:
    """Read code on this host, by the active configuration."""

    def host() -> HostContext:
        return replace(parts.host, ledger=parts.ledger)

    def commits(worker_ids: Sequence[str], most: int) -> Sequence[Commit]:
        from supervisor_core.code.planning import recent_commits  # late: a shell that only sends must not pay for it

        return recent_commits(host(), worker_ids, most)

    def find(worker_ids: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:
        from supervisor_core.code.planning import find_commit

        return find_commit(host(), worker_ids, name, most)

    return CodeReader(observer(host), commits, find)


class Reach:
    """The workers that people can name: those of this host, and on a hub those of all hosts."""

    def __init__(self, context: DaemonContext) -> None:
        self.context = context
        """Its configuration has all these workers."""
        self.code_now = build_code_reader(context)
        """Reads their code."""

    @property
    def code(self) -> CodeReader:
        """Reads their code, by what can be reached at the time."""

        def preview(command: Command) -> Previews:
            return self.code_now.preview(command)

        def commits(workers: Sequence[str], most: int) -> Sequence[Commit]:
            return self.code_now.commits(workers, most)

        def find(workers: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:
            return self.code_now.find(workers, name, most)

        return CodeReader(preview, commits, find)


def reach_of(parts: DaemonContext) -> Reach:
    """The workers that people can name here. A hub's configuration of them isn't that of its own workers."""
    is_hub = parts.host.config.fleet.role == HUB
    return Reach(DaemonContext(parts.host, parts.opened) if is_hub else parts)


def build_scheduler(
    parts: DaemonContext,
    approvals: Approvals,
    blocking: Blocking,
    look: Callable[[Collection[str]], Mapping[str, WatchedWorker]],
    filed: Callable[[], None],
    *,
    is_paused: Callable[[], bool] = lambda: False,
    look_again: Callable[[], None] = lambda: None,
    facts: FactSource | None = None,
    lines_elsewhere: Callable[[str, int], Sequence[str]] | None = None,
    rights: Rights | None = None,
    answering: AnswerCommand = no_chat,
) -> Scheduler:
    """The service that looks after what comes due: alerts, approvals, workers whose code was changed, schedules.

    `look` observes workers now, and `lines_elsewhere` reads the output of another host's worker; both block. Called on
    the event loop: `filed` when commands were filed, `look_again` at each check, to look at unhealthy workers.
    `is_paused` says whether monitoring is paused.
    """

    from supervisor_core.intake.ticker import Ticker  # imports APScheduler, which only a daemon needs

    def config() -> SupervisorConfig:
        return parts.host.config

    alerting = AlertMonitor(parts.ledger, config, is_paused, EvidenceCollector(lambda: parts.host, lines_elsewhere))
    baking = BakingChore(parts.ledger, config, look)
    schedules = SchedulesChore(parts.ledger, config, approvals, rights or host_rights(config), answering, facts)
    weekly = WeeklyChore(parts.ledger, config)
    retention = RetentionChore(lambda: parts.host, parts.ledger)
    rolling = RollingChore(parts.ledger)
    chores = (alerting, ApprovalsChore(approvals), rolling, baking, schedules, weekly, retention)
    return Scheduler(
        parts.ledger,
        blocking,
        chores,
        Ticker(config().alerts.check_seconds),
        filed,
        restless={alerting: alerting.is_restless},
        look_again=look_again,
        seeing=alerting.see,
        observing=alerting.observe_all,
    )


ReadOutput = Callable[[Sequence[str], int], Awaitable[list[WorkerLog]]]
"""The newest lines that these workers wrote, so many of each."""

Explain = Callable[[Collection[str]], Awaitable[list[Explanation]]]
"""Explains these workers by a live check, the unhealthy ones first."""


class Chat(Service, ABC):
    """The service in which people give commands and see what comes of them."""

    def figures(self) -> Mapping[str, float]:
        return {}

    @abstractmethod
    def configured(self, config: SupervisorConfig) -> None:
        """These workers and teams count from now on."""


@dataclass(frozen=True, slots=True)
class ChatContext:
    """The parts of the daemon that a chat receives."""

    look: Callable[[], Awaitable[list[dict[str, Any]]]]
    """The status of all workers, checked live."""
    filed: Callable[[], None]
    """To be called when a command has been filed."""
    monitoring: SetMonitoring
    versions: Callable[[], Awaitable[Mapping[str, str]]]
    """The commit of each worker's checkout, where it is known."""
    written: ReadOutput
    explain: Explain
    code: CodeReader


ChatFactory = Callable[[ChatContext], Chat]


@dataclass(frozen=True, slots=True)
class ChatConnection:
    """A chat before it runs, with the parts that others need."""

    rights: Rights
    answer: AnswerCommand
    service: Callable[[Approvals, ChatContext], Chat]


class ChatPlugin(Protocol):
    def connect(
        self, config: SupervisorConfig, ledger: Ledger, credentials: SlackCredentials, host_rights: Rights
    ) -> ChatConnection:
        """Prepare the service; `host_rights` decides where the chat is away."""

    def checks(self) -> Sequence[Check]:
        """The rows for the table of `supervisor doctor`."""

    def manifest(self) -> str:
        """The manifest of the chat's app, to be pasted by an administrator."""

    def run_demo(self, port: int, *, tour: bool, fleet: bool) -> int:
        """Run `supervisor demo`; returns its exit code."""


def installed_chat() -> ChatPlugin:
    """Load the chat that is installed beside the core."""
    for entry in entry_points(group=GROUP, name=CHAT):
        plugin: ChatPlugin = entry.load()()
        return plugin
    raise SupervisorError(
        f"No chat is installed: no package provides the entry point {CHAT} in the group {GROUP}.",
        remedy="Reinstall supervisor-chatops. In a checkout: python -m pip install --no-deps --editable .",
    )
