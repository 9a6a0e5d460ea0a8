"""Changes the code of workers: stops all that run from the checkout, makes the change, and starts them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from supervisor_core.code.change_plan import CodePlan, describe_move, followed_by, short
from supervisor_core.code.checkout import Checkout, CodeRefused, check_unmoved
from supervisor_core.code.git.changes import push, tidy
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
from supervisor_core.workers.worker import find_watcher, start_watcher, stop_watcher_gracefully

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The result of a code change, before the workers run it."""

    details: Mapping[str, Any]
    message: str
    """The result as a sentence without its full stop: `Updated OrionMX by 2 commits (1a2b3c4 → 5d6e7f8)`."""
    error: str | None = None


PutBack = Callable[[str], CodeResult]
"""Restores the code from before a change; its argument says why, and becomes the error of the result."""


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
        known = {"was_running": self.old_pid is not None, "old_pid": self.old_pid, "new_pid": self.new_pid}
        how = stop_details(self.stopped) if self.stopped is not None else {}
        return {**known, **how, "rests": self.rests or None, "error": self.error or None}


def change_code(
    host: HostContext,
    job: Job,
    site: Checkout,
    plan: CodePlan,
    apply: Callable[[], CodeResult],
    *,
    put_back: PutBack | None = None,
    push_commits: bool = False,
) -> Outcome:
    """Stop the workers of a checkout, change its code, and start them again, also after a failure.

    1. Look at all workers, and refuse if one couldn't be started afterwards. Quarantined ones are left alone.
    2. Stop them. If one doesn't stop, start the others again and change nothing.
    3. Check the code again, and `apply`, which changes nothing if it raises a `SupervisorError`.
    4. Start them. If one that ran before fails with the new code, stop them, `put_back` the old code, and start again.
    5. Push the new commits if `push_commits` is set and it's configured.
    """
    turns, left_alone = [], []
    for worker in site.workers:
        found = find_watcher(host.processes, host.drive, host.config, worker, beside=True)
        try:
            check_alone(found)
        except RefusedError as error:
            raise CodeRefused(str(error)) from None
        turn = WorkerRestart(worker, found.identity.pid if found.identity else None)
        if worker.quarantined:
            left_alone.append(replace(turn, rests=start_objection(worker)))
        else:
            turns.append(turn)
    for turn in turns:
        if turn.old_pid and not _why_at_rest(host, turn.worker):
            try:
                check_startable(host, turn.worker)
            except (SupervisorError, OSError) as error:
                raise CodeRefused(
                    f"Nothing was changed: {turn.worker.id} couldn't be started again afterwards. {error}"
                ) from None
    why = stop_reason(job)
    turns = _all_at_once(turns, lambda turn: _stop(host, turn, why))
    if kept := [turn for turn in turns if not turn.stopped]:
        return _not_stopped(job, kept, _all_at_once(turns, lambda turn: start_again(host, turn, why)))
    made = _apply(site, plan, apply)
    turns = _all_at_once(turns, lambda turn: start_again(host, turn, why))
    dead = [turn for turn in turns if turn.died]
    if dead and put_back and made.error is None:
        made, turns = _without_it(host, put_back, made, turns, dead, why)
    if made.error is None:
        if push_commits:
            made = _push(host, site, made)
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
        _all_at_once([WorkerRestart(worker, None) for worker in stopped], lambda turn: start_again(host, turn, why)),
    )


def _not_stopped(job: Job, kept: Sequence[WorkerRestart], turns: Sequence[WorkerRestart]) -> Outcome:
    """The outcome if a worker couldn't be stopped: the code isn't changed, and the others run again."""
    details = {"workers": _workers_json(turns), "label": job.label}
    survived = [turn.stopped for turn in kept if turn.stopped is not None]
    if survived:
        return stuck(survived[0], details, "Its code wasn't changed.")
    why = " ".join(f"{turn.worker.id} couldn't be stopped: {turn.error}" for turn in kept)
    return Outcome.failed(f"{why} Nothing was changed. {_how_they_are(turns)}.", **details)


def _stop(host: HostContext, turn: WorkerRestart, why: str) -> WorkerRestart:
    """Stop one worker. A failure is kept in its entry, so that the others are started again all the same."""
    if turn.old_pid and turn.stopped is None:
        host.progress(f"stopping {turn.worker.id} (pid {turn.old_pid})")
    try:
        return replace(turn, stopped=stop_watcher_gracefully(host.processes, turn.worker, why), error="")
    except (SupervisorError, OSError) as error:
        return replace(turn, stopped=None, error=str(error))


def _apply(site: Checkout, plan: CodePlan, apply: Callable[[], CodeResult]) -> CodeResult:
    """Make the change, unless the code has changed while its workers stopped."""
    before = ""
    try:
        check_unmoved(site, plan)
        before = plan.head.hash
        return apply()
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
    put_back: PutBack,
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
    stopped = _all_at_once(turns, lambda turn: _stop(host, turn, ordered))
    if all(turn.stopped for turn in stopped):
        try:
            made = put_back(why)
        except SupervisorError as error:
            made = replace(made, error=followed_by(why, f"Restoring the previous version failed too. {error}"))
        except Exception as error:  # as in `_apply`
            log.exception("restoring the previous version failed unexpectedly")
            failed = f"Restoring the previous version failed too: {describe(error)}."
            made = replace(made, error=followed_by(why, failed))
    made = replace(made, details={**made.details, "failed": {turn.worker.id: turn.error for turn in dead}})
    return made, _all_at_once(stopped, lambda turn: start_again(host, turn, ordered))


def _push(host: HostContext, site: Checkout, made: CodeResult) -> CodeResult:
    """Push the new commits if that's configured. A failed push doesn't fail the command."""
    code = site.code
    if not code.push_rollbacks or made.details["before"] == made.details["after"]:
        return replace(made, details={**made.details, "pushed": False})
    host.progress(f"pushing to {code.remote}")
    try:
        push(site.git, code.remote, code.branch)
    except SupervisorError as error:
        details = {**made.details, "pushed": False, "push_error": str(error)}
        return replace(made, details=details, message=f"{made.message}. {str(error).rstrip('.')}")
    return replace(made, details={**made.details, "pushed": True}, message=f"{made.message}. Pushed to {code.remote}")


def _all_at_once(turns: Sequence[WorkerRestart], work: Callable[[WorkerRestart], T]) -> list[T]:
    """Do the same for all of them concurrently, since each takes its own time to stop and start."""
    from concurrent.futures import ThreadPoolExecutor  # seldom needed

    with ThreadPoolExecutor(max_workers=len(turns) or 1, thread_name_prefix="code-change") as pool:
        # A copy of the context each, so that log lines name this command.
        futures = [pool.submit(copy_context().run, work, turn) for turn in turns]
        return [future.result() for future in futures]


def _outcome(job: Job, site: Checkout, made: CodeResult, turns: Sequence[WorkerRestart]) -> Outcome:
    down = [turn for turn in turns if turn.error]
    error = None
    if down:  # first who is down, then what went wrong with the code
        names, are = ", ".join(turn.worker.id for turn in down), "is" if len(down) == 1 else "are"
        moved = str(made.details.get("before", "")) != str(made.details.get("after", ""))
        undo = f" To restore the previous code: {undo_words(job)}." if moved else ""
        reasons = [sentence(reason) for reason in (made.error, *(turn.error for turn in down)) if reason]
        words = f"{names} couldn't be started and {are} down. {made.message}.{undo}"
        error = " ".join([words, *reasons])
    elif made.error:
        error = followed_by(made.error, f"{_how_they_are(turns)}.")
    details = {
        **made.details,
        "message": f"{made.message}. {_how_they_are(turns)}",
        "label": job.label,
        "checkout": str(site.top),
        "workers": _workers_json(turns),
        "commit_page": commit_page_of(site.git, site.code.remote) or None,
        "success": error is None,
        "error": error,
    }
    return Outcome(error is None, error, details)


def _how_they_are(turns: Sequence[WorkerRestart]) -> str:
    """`OrionMX is running (pid 12)`, `OrionMX wasn't started: paused by ann …`."""
    parts = []
    for turn in turns:
        if turn.error:
            parts.append(f"{turn.worker.id} couldn't be started")
        elif turn.worker.quarantined:
            runs = f", and still runs the code that it was started with (pid {turn.old_pid})" if turn.old_pid else ""
            parts.append(f"{turn.worker.id} was left alone: it's quarantined in the configuration{runs}")
        elif turn.new_pid is None:
            parts.append(f"{turn.worker.id} wasn't started: {turn.rests.rstrip('.')}")
        else:
            killed = turn.stopped is not None and turn.stopped.ending is Ending.KILLED
            late = "; the old process didn't stop in time and was killed" if killed else ""
            parts.append(f"{turn.worker.id} is running (pid {turn.new_pid}{late})")
    return ". ".join(parts)


def _workers_json(turns: Iterable[WorkerRestart]) -> dict[str, Any]:
    return {turn.worker.id: turn.as_json() for turn in turns}


def undo_words(job: Job) -> str:
    """The command that reverses this one. An undo can't be undone, but it's a commit like any other."""
    if job.handler == "undo_code":
        return f"rollback {job.worker_id} 1"
    return f"undo {job.worker_id} {job.task_id}"
