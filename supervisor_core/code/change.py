"""Changing code under its workers: all who run from it are stopped, the change is made, and all are started again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from supervisor_core.code.change_plan import CodePlan, describe_move, short
from supervisor_core.code.checkout import Checkout, CodeRefused, check_unmoved
from supervisor_core.code.git.changes import tidy
from supervisor_core.code.git.history import resolve_commit
from supervisor_core.code.git.hosting import commit_page_of
from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import RefusedError, SupervisorError, describe
from supervisor_core.common.text import sentence
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.jobs.handler_checks import (
    check_alone,
    check_startable,
    find_stopped,
    start_objection,
    stop_details,
    stop_reason,
    stuck,
)
from supervisor_core.jobs.model import Job
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.stopping import Ending, StopReport
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.worker import Search, look_for_watcher, start_watcher, stop_watcher_gracefully

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CodeResult:
    """What came of a change of the code, before anybody runs it."""

    details: Mapping[str, Any]
    message: str
    """The result as a sentence without its full stop: `Updated OrionMX by 2 commits (1a2b3c4 → 5d6e7f8)`."""
    error: str | None = None


class CodeOperation(Protocol):
    """What a command does to a checkout while nobody runs from it."""

    def apply(self) -> CodeResult:
        """Do it. A `SupervisorError` says that nothing was changed."""

    def take_back(self) -> Callable[[str], CodeResult] | None:
        """How to have what was before, for a worker that lived then and does not live with it; None: it is left."""

    def afterwards(self, made: CodeResult) -> CodeResult:
        """What may be done once the workers run again, and fails nothing."""


@dataclass(frozen=True, slots=True)
class WorkerRestart:
    """How one worker went through it."""

    worker: WorkerSettings
    old_pid: int | None
    stopped: StopReport | None = None
    new_pid: int | None = None
    rests: str = ""
    """Why it was not started again: paused, quarantined, not enabled."""
    error: str = ""
    by_itself: bool = False
    """Whether the error is that it did not live, and not that something kept us from starting it."""

    @property
    def died(self) -> bool:
        """Whether it ran before, and does not live now."""
        return bool(self.old_pid and self.error and self.by_itself)

    def as_json(self) -> dict[str, Any]:
        """For results."""
        known = {"was_running": self.old_pid is not None, "old_pid": self.old_pid, "new_pid": self.new_pid}
        how = stop_details(self.stopped) if self.stopped is not None else {}
        return {**known, **how, "rests": self.rests or None, "error": self.error or None}


def change_code(host: HostContext, job: Job, site: Checkout, plan: CodePlan, change: CodeOperation) -> Outcome:
    """Stop, look again, change, start. Whatever comes of it, the workers are started again unless they rest."""
    turns = _look(host, site)
    _check_startable(host, turns)
    why = stop_reason(job)
    turns = _each(turns, lambda turn: _stop(host, turn, why))
    if kept := [turn for turn in turns if not turn.stopped]:
        return _not_stopped(job, kept, _start_all(host, turns, why))
    made = _apply(site, plan, change)
    turns = _start_all(host, turns, why)
    dead, take_back = [turn for turn in turns if turn.died], change.take_back()
    if dead and take_back and made.error is None:
        made, turns = _without_it(host, take_back, made, turns, dead, why)
    if made.error is None:
        made = change.afterwards(made)
        tidy(site.git)
    return _outcome(job, site, made, turns)


def _not_stopped(job: Job, kept: Sequence[WorkerRestart], turns: Sequence[WorkerRestart]) -> Outcome:
    """Somebody still runs from there, or may: the code is not changed under them, and the others run again."""
    details = {"workers": _told(turns), "label": job.label}
    survived = [turn.stopped for turn in kept if turn.stopped is not None]
    if survived:
        return stuck(survived[0], details, "Its code wasn't changed.")
    why = " ".join(f"{turn.worker.id} couldn't be stopped: {turn.error}" for turn in kept)
    return Outcome.failed(f"{why} Nothing was changed. {_how_they_are(turns)}.", **details)


def _look(host: HostContext, site: Checkout) -> list[WorkerRestart]:
    turns = []
    for worker in site.workers:
        found = look_for_watcher(host.processes, host.drive, host.config, worker, Search.ALWAYS).found
        try:
            check_alone(found)
        except RefusedError as error:
            raise CodeRefused(str(error)) from None
        turns.append(WorkerRestart(worker, found.identity.pid if found.identity else None))
    return turns


def _check_startable(host: HostContext, turns: Iterable[WorkerRestart]) -> None:
    """A worker that works is not stopped where it is plain that it could not be started again."""
    for turn in turns:
        if turn.old_pid is None or _why_at_rest(host, turn.worker):
            continue
        try:
            check_startable(host, turn.worker)
        except (SupervisorError, OSError) as error:
            raise CodeRefused(
                f"Nothing was changed: {turn.worker.id} couldn't be started again afterwards. {error}"
            ) from None


def _stop(host: HostContext, turn: WorkerRestart, why: str) -> WorkerRestart:
    if turn.old_pid:
        host.progress(f"stopping {turn.worker.id} (pid {turn.old_pid})")
    return _stopped(host, turn, why)


def _stopped(host: HostContext, turn: WorkerRestart, ordered: str) -> WorkerRestart:
    """The worker at rest; else why not, which must keep nobody else from being started again."""
    try:
        return replace(turn, stopped=stop_watcher_gracefully(host.processes, turn.worker, ordered), error="")
    except (SupervisorError, OSError) as error:
        return replace(turn, stopped=None, error=str(error))


def _apply(site: Checkout, plan: CodePlan, change: CodeOperation) -> CodeResult:
    """Make the change, unless the code has changed while its workers stopped."""
    before = ""
    try:
        check_unmoved(site, plan.head.hash, plan.changes, (*plan.files, *plan.on_the_way))
        before = plan.head.hash
        return change.apply()
    except SupervisorError as error:
        words = str(error)
    except Exception as error:  # whatever it is, the workers wait to be started
        log.exception("changing the code failed unexpectedly")
        words = f"Unexpected error: {describe(error)}."
    try:
        after = resolve_commit(site.git, "HEAD")
    except SupervisorError:
        return CodeResult({}, "The state of the code is unknown", words)
    before = before or after
    said = describe_move("The code moved", before, after) if after != before else f"The code is still at {short(after)}"
    return CodeResult({"before": before, "after": after}, said, words)


def _start_all(host: HostContext, turns: Sequence[WorkerRestart], why: str) -> list[WorkerRestart]:
    return _each(turns, lambda turn: start_again(host, turn, why))


def start_again(host: HostContext, turn: WorkerRestart, why: str) -> WorkerRestart:
    """Start one worker for this command, unless it rests or runs."""
    worker = turn.worker
    if rests := _why_at_rest(host, worker):
        return replace(turn, rests=rests, new_pid=None, error="")
    found = find_stopped(host.processes, worker)
    if found.stopping:
        return replace(turn, rests="it's still stopping and starts once it has exited", new_pid=None, error="")
    if found.identity is not None:
        return replace(turn, new_pid=found.identity.pid, error="")
    host.progress(f"starting {worker.id}")
    try:
        started = start_watcher(host.processes, host.drive, host.config, worker, trial=why)
    except LaunchError as error:
        return replace(turn, new_pid=None, error=str(error), by_itself=True)
    except (SupervisorError, OSError) as error:
        return replace(turn, new_pid=None, error=str(error))
    return replace(turn, new_pid=started.pid, error="")


def _why_at_rest(host: HostContext, worker: WorkerSettings) -> str:
    pause = host.pauses.read(worker.id)
    return str(pause) if pause else start_objection(worker)


def _without_it(
    host: HostContext,
    take_back: Callable[[str], CodeResult],
    made: CodeResult,
    turns: list[WorkerRestart],
    dead: Sequence[WorkerRestart],
    ordered: str,
) -> tuple[CodeResult, list[WorkerRestart]]:
    """What lived before does not live with the change: have what was before, and start all with that."""
    why = " ".join(f"{turn.worker.id} fails with the new version: {turn.error}" for turn in dead)
    host.progress(f"{dead[0].worker.id} fails with the new version; restoring the previous one")
    stopped = _each(turns, lambda turn: _stopped(host, turn, ordered))
    if all(turn.stopped for turn in stopped):
        try:
            made = take_back(why)
        except SupervisorError as error:
            made = replace(made, error=f"{sentence(why)} Restoring the previous version failed too. {error}")
        except Exception as error:  # as above
            log.exception("restoring the previous version failed unexpectedly")
            made = replace(made, error=f"{sentence(why)} Restoring the previous version failed too: {describe(error)}.")
    failed = {turn.worker.id: turn.error for turn in dead}
    return replace(made, details={**made.details, "failed": failed}), _start_all(host, stopped, ordered)


def _each(turns: Iterable[WorkerRestart], work: Callable[[WorkerRestart], T]) -> list[T]:
    """Do the same for all of them at once: each has its own time to end, and to come up."""
    turns = list(turns)
    if len(turns) == 1:
        return [work(turns[0])]
    from concurrent.futures import ThreadPoolExecutor  # seldom needed

    with ThreadPoolExecutor(max_workers=len(turns) or 1, thread_name_prefix="code-change") as pool:
        # What is logged there belongs to this command, too.
        waiting = [pool.submit(copy_context().run, work, turn) for turn in turns]
        return [each.result() for each in waiting]


def _outcome(job: Job, site: Checkout, made: CodeResult, turns: Sequence[WorkerRestart]) -> Outcome:
    dead = [turn for turn in turns if turn.error]
    details = {**made.details, "message": f"{made.message}. {_how_they_are(turns)}", "label": job.label}
    details |= {"checkout": str(site.top), "workers": _told(turns)}
    details |= {"commit_page": commit_page_of(site.git, site.code.remote) or None}
    error = _in_words(made, turns, dead, job) if made.error or dead else None
    return Outcome(error is None, error, {**details, "success": error is None, "error": error})


def _in_words(made: CodeResult, turns: Sequence[WorkerRestart], dead: Sequence[WorkerRestart], job: Job) -> str:
    """What matters most comes first: what does not run, then what went wrong with the code."""
    if not dead:
        return f"{sentence(made.error or '')} {_how_they_are(turns)}."
    names = ", ".join(turn.worker.id for turn in dead)
    before, after = str(made.details.get("before", "")), str(made.details.get("after", ""))
    undo = f" To restore the previous code: {undo_words(job)}." if before != after else ""
    are = "is" if len(dead) == 1 else "are"
    words = f"{names} couldn't be started and {are} down. {made.message}.{undo}"
    return " ".join([words, *([sentence(made.error)] if made.error else []), *(sentence(turn.error) for turn in dead)])


def _how_they_are(turns: Sequence[WorkerRestart]) -> str:
    """`OrionMX is running (pid 12)`, `OrionMX wasn't started: paused by ann …`."""
    said = []
    for turn in turns:
        if turn.error:
            said.append(f"{turn.worker.id} couldn't be started")
        elif turn.new_pid is None:
            said.append(f"{turn.worker.id} wasn't started: {turn.rests.rstrip('.')}")
        else:
            killed = turn.stopped is not None and turn.stopped.ending is Ending.KILLED
            late = "; the old process didn't stop in time and was killed" if killed else ""
            said.append(f"{turn.worker.id} is running (pid {turn.new_pid}{late})")
    return ". ".join(said)


def _told(turns: Iterable[WorkerRestart]) -> dict[str, Any]:
    return {turn.worker.id: turn.as_json() for turn in turns}


def undo_words(job: Job) -> str:
    """The command that takes this one back; an undo can't be undone itself, but is a commit like any other."""
    if job.handler == "undo_code":
        return f"rollback {job.worker_id} 1"
    return f"undo {job.worker_id} {job.task_id}"
