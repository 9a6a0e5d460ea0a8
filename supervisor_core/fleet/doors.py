"""The questions that a host answers, to its own daemon or to a hub elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from supervisor_core.code.change_plan import Commit
from supervisor_core.code.watch.rules import WatchedWorker
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import Facts
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.diagnosis.worker_logs import WorkerLog

Documents = list[dict[str, Any]]


class HostView(Protocol):
    """Looks at the workers of a host."""

    def documents(self) -> Awaitable[Documents]:
        """The status of all workers, checked live."""

    def detailed_documents(self) -> Awaitable[Documents]:
        """The same with the commit, memory and CPU time of each."""

    def versions(self) -> Awaitable[Mapping[str, str]]:
        """The commit of each worker's checkout, where it's known."""

    def newest_output(self, workers: Sequence[str], count: int) -> Awaitable[list[WorkerLog]]:
        """The newest lines that these workers wrote."""

    def explanations(self, worker_ids: Collection[str]) -> Awaitable[list[Explanation]]:
        """Explain these workers, the unhealthy ones first."""

    def watched(self, worker_ids: Collection[str]) -> Mapping[str, WatchedWorker]:
        """Look at these workers for the watch after a code change. It blocks."""

    def facts(self) -> Facts:
        """For the conditions of a target. It blocks."""


class HostCode(Protocol):
    """Reads the code of a host's workers. Every call blocks."""

    @property
    def preview(self) -> Callable[[Command], tuple[dict[str, Any], ...]]:
        """The effect that a command would have."""

    @property
    def commits(self) -> Callable[[Sequence[str], int], Sequence[Commit]]:
        """The newest commits of these workers' checkout."""

    @property
    def find(self) -> Callable[[Sequence[str], str, int], tuple[Commit, int] | None]:
        """A commit by its hash, with its place among the newest."""


@dataclass(frozen=True, slots=True)
class HostDoors:
    """The parts of a host's daemon that its fleet uses."""

    view: HostView
    code: HostCode
    filed: Callable[[Collection[str]], None]
    """To be called with the workers that have new jobs."""
    knows: Callable[[str], bool]
    """True for a worker of this host."""
