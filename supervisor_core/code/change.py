"""Changes the code of workers: stops all that run from the checkout, makes the change, and starts them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from supervisor_core.code.change_plan import CodePlan, describe_move, followed_by, short
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
from supervisor_core.processes.finding import Presence
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.stopping import Ending, StopReport
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.worker import Search, look_for_watcher, start_watcher, stop_watcher_gracefully

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The result of a code change, before the workers run it."""

    details: Mapping[str, Any]
    message: str
    """The result as a sentence without its full stop: `Updated OrionMX by 2 commits (1a2b3c4 → 5d6e7f8)`."""
    error: str | None = None


class CodeOperation(Protocol):
    """The change that a command makes to a checkout while its workers are stopped."""

    def apply(self) -> CodeResult:
        """Make the change. A `SupervisorError` means that nothing was changed."""

    def take_back(self) -> Callable[[str], CodeResult] | None:
        """The way back for a worker that fails with the new version; None if the change stays anyway."""

    def afterwards(self, made: CodeResult) -> CodeResult:
        """Finish once the workers run again. A failure here doesn't fail the command."""


@dataclass(frozen=True, slots=True)
class WorkerRestart:
    """The stop and start of one worker during a code change."""

    worker: WorkerSettings
    old_pid: int | None
    stopped: StopReport | None = None
    new_pid: int | None = None
    rests: str = ""
    """Why it wasn't started again: paused, quarantined or not enabled."""
    error: str = ""
    exited: bool = False
    """True if the worker itself exited, and nothing else kept it from starting."""

    @property
    def died(self) -> bool:
        """True if it ran before, and fails with the new version."""
        return bool(self.old_pid and self.error and self.exited)

    def as_json(self) -> dict[str, Any]:
        """For results."""
        known = {"was_running": self.old_pid is not None, "old_pid": self.old_pid, "new_pid": self.new_pid}
        how = stop_details(self.stopped) if self.stopped is not None else {}
        return {**known, **how, "rests": self.rests or None, "error": self.error or None}


def change_code(host: HostContext, job: Job, site: Checkout, plan: CodePlan, change: CodeOperation) -> Outcome:
    """Stop the workers, check the code again, change it, and start the workers, even after a failure."""
    found = _look(host, site)
    left_alone = [replace(turn, rests=start_objection(turn.worker)) for turn in found if turn.worker.quarantined]
    turns = [turn for turn in found if not turn.worker.quarantined]
    _check_startable(host, turns)
    why = stop_reason(job)
    turns = _each(turns, lambda turn: _stop(host, turn, why))
    if kept := [turn for turn in turns if not turn.stopped]:
        return _not_stopped(job, kept, _each(turns, lambda turn: start_again(host, turn, why)))
    made = _apply(site, plan, change)
    turns = _each(turns, lambda turn: start_again(host, turn, why))
    dead, take_back = [turn for turn in turns if turn.died], change.take_back()
    if dead and take_back and made.error is None:
        made, turns = _without_it(host, take_back, made, turns, dead, why)
    if made.error is None:
        made = change.afterwards(made)
        tidy(site.git)
    return _outcome(job, site, made, [*turns, *left_alone])


def start_stopped(host: HostContext, job: Job, site: Checkout, made: CodeResult) -> Outcome:
    """The outcome of a change that had nothing to do: workers that should run and don't are started."""
    stopped = [
        worker
        for worker in site.workers
        if not _why_at_rest(host, worker)
        and host.quarantines.read(worker.id) is None
        and find_stopped(host.processes, worker).presence is Presence.STOPPED
    ]
    if not stopped:
        return Outcome.done(message=made.message, **made.details)
    why = stop_reason(job)
    return _outcome(
        job,
        site,
        made,
        _each([WorkerRestart(worker, None) for worker in stopped], lambda turn: start_again(host, turn, why)),
    )


def _not_stopped(job: Job, kept: Sequence[WorkerRestart], turns: Sequence[WorkerRestart]) -> Outcome:
    """The outcome if a worker couldn't be stopped: the code isn't changed, and the others run again."""
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
    """Raise `CodeRefused` if a running worker couldn't be started again afterwards."""
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
    """Stop one worker. A failure is kept in its entry, so that the others are started again all the same."""
    if turn.old_pid and turn.stopped is None:
        host.progress(f"stopping {turn.worker.id} (pid {turn.old_pid})")
    try:
        return replace(turn, stopped=stop_watcher_gracefully(host.processes, turn.worker, why), error="")
    except (SupervisorError, OSError) as error:
        return replace(turn, stopped=None, error=str(error))


def _apply(site: Checkout, plan: CodePlan, change: CodeOperation) -> CodeResult:
    """Make the change, unless the code has changed while its workers stopped."""
    before = ""
    try:
        check_unmoved(site, plan)
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


def start_again(host: HostContext, turn: WorkerRestart, why: str) -> WorkerRestart:
    """Start one worker for this command, unless it's running, paused or quarantined."""
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
        return replace(turn, new_pid=None, error=str(error), exited=True)
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
    """Restore the previous version, with which the failing workers ran, and start all of them again."""
    why = "\n".join(
        f"{turn.worker.id} fails with the new version: {turn.error.removeprefix(f'{turn.worker.id} ')}" for turn in dead
    )
    host.progress(f"{dead[0].worker.id} fails with the new version; restoring the previous one")
    stopped = _each(turns, lambda turn: _stop(host, turn, ordered))
    if all(turn.stopped for turn in stopped):
        try:
            made = take_back(why)
        except SupervisorError as error:
            made = replace(made, error=followed_by(why, f"Restoring the previous version failed too. {error}"))
        except Exception as error:  # as above
            log.exception("restoring the previous version failed unexpectedly")
            made = replace(
                made, error=followed_by(why, f"Restoring the previous version failed too: {describe(error)}.")
            )
    failed = {turn.worker.id: turn.error for turn in dead}
    return replace(made, details={**made.details, "failed": failed}), _each(
        stopped, lambda turn: start_again(host, turn, ordered)
    )


def _each(turns: Iterable[WorkerRestart], work: Callable[[WorkerRestart], T]) -> list[T]:
    """Do the same for all of them at once, since each takes its own time to stop and start."""
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
    """The error, with what matters most first: which workers are down, then what went wrong with the code."""
    if not dead:
        return followed_by(made.error or "", f"{_how_they_are(turns)}.")
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
        elif turn.worker.quarantined:
            runs = f", and still runs the code that it was started with (pid {turn.old_pid})" if turn.old_pid else ""
            said.append(f"{turn.worker.id} was left alone: it's quarantined in the configuration{runs}")
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
    """The command that reverses this one. An undo can't be undone, but it's a commit like any other."""
    if job.handler == "undo_code":
        return f"rollback {job.worker_id} 1"
    return f"undo {job.worker_id} {job.task_id}"
