"""The hosts that a daemon speaks for: its own one, and on a hub all hosts of the fleet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supervisor_core.code.change_plan import Commit
    from supervisor_core.code.watch.rules import WatchedWorker
    from supervisor_core.commands.command import Command, Issuer
    from supervisor_core.commands.conditions import Facts
    from supervisor_core.config.load import SupervisorConfig
    from supervisor_core.diagnosis.why.model import Explanation
    from supervisor_core.diagnosis.worker_logs import WorkerLog

Documents = list[dict[str, Any]]


class Hosts(ABC):
    """Answers about workers, for the chat, the status page, the scheduler and the control socket.

    Coroutines run on the event loop; all other methods but `config` and `wake` block.
    """

    @property
    @abstractmethod
    def config(self) -> SupervisorConfig:
        """The active configuration, with all workers that people can name."""

    @abstractmethod
    def wake(self, worker_ids: Collection[str] | None = None) -> None:
        """Commands were filed for these workers, or for any. On the event loop."""

    @abstractmethod
    async def set_monitoring(self, issuer: Issuer, *, paused: bool) -> str:
        """Pause or resume monitoring of the daemon's own host; returns the result in words."""

    @abstractmethod
    async def statuses(self) -> Documents:
        """The workers as `status` shows them, by a live check."""

    @abstractmethod
    async def detailed_statuses(self) -> Documents:
        """The same with the commit, memory and CPU time of each."""

    @abstractmethod
    async def versions(self) -> Mapping[str, str]:
        """The commit of each worker's checkout, where it's known."""

    @abstractmethod
    async def newest_output(self, worker_ids: Sequence[str], count: int) -> list[WorkerLog]: ...

    @abstractmethod
    async def explain(self, worker_ids: Collection[str]) -> list[Explanation]:
        """Explain these workers by a live check, the unhealthy ones first."""

    @abstractmethod
    def last_lines(self, worker_id: str, count: int) -> Sequence[str]: ...

    @abstractmethod
    def watched(self, worker_ids: Collection[str]) -> Mapping[str, WatchedWorker]:
        """The state of these workers for the watch after a code change."""

    @abstractmethod
    def facts(self) -> Facts:
        """The facts that the conditions of a target are checked against."""

    @abstractmethod
    def preview(self, command: Command) -> tuple[dict[str, Any], ...]: ...

    @abstractmethod
    def commits(self, worker_ids: Sequence[str], most: int) -> Sequence[Commit]:
        """The newest commits of these workers' checkout that can be reverted."""

    @abstractmethod
    def find_commit(self, worker_ids: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:
        """A commit by its hash in the checkout of these workers, with its position among the newest."""
