"""The rules that name the cause of a worker's condition, the most fundamental first.

An unreachable drive explains an unreadable heartbeat, and a full disk explains a crash. A rule claims no more than is
known: an inference is called most likely, with its evidence. Sentences have no stop at their end; next steps do.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from supervisor_core.code.change_plan import count, short
from supervisor_core.commands.command import Command
from supervisor_core.commands.phrases import Part, Phrase
from supervisor_core.common.errors import CommandText, Verbatim
from supervisor_core.common.text import sentence, times
from supervisor_core.common.times import format_ago, format_span
from supervisor_core.diagnosis.why.evidence import BLAMED, Weight, breaking_change, evidence
from supervisor_core.diagnosis.why.model import Cause, Finding, RecentChange, RecentConfiguration, WorkerFacts
from supervisor_core.host.logging import excerpts
from supervisor_core.workers.health import FROZEN_SECONDS, HEARTBEAT_EXAMPLE, Health, WorkerState, progressed_at
from supervisor_core.workers.restarts.policy import run_in_words, was_killed
from supervisor_core.workers.status import brief

RECOVERED = timedelta(hours=1)
"""A worker that failed within this time and runs again counts as recovered."""

NAMED_CHANGES, NAMED_SURVIVORS = 3, 5
CHANGES = {
    "update_code": "the update",
    "update_code_deps": "the update with dependencies",
    "rollback_code": "the rollback",
    "undo_code": "the undo",
}
MORE_MEMORY = "Give it more memory, reduce its work, or fix the leak. Then restart it."
FIND_KILLER = "Find out who or what on the host killed it. "
COMPARE_CLOCKS = (
    "Compare the clocks and sync them (NTP). The supervisor leaves the worker alone: its process is running."
)
OOM_LOG = Verbatim("dmesg | grep -i oom")


def find_cause(worker: WorkerFacts) -> Finding:
    """Apply the first rule that holds."""
    for rule in RULES:
        if finding := rule(worker):
            return finding
    return Finding(Cause.OTHER, (worker.name, f": {worker.reason}"), since=worker.since)


def stays_stopped(worker: WorkerFacts) -> Finding | None:
    """Nobody knows whether it runs, or it doesn't run on purpose."""
    name, seen, paused = worker.name, worker.seen, worker.paused
    if seen.unverifiable:
        return Finding(
            Cause.NOT_KNOWN,
            ("Can't tell whether ", name, f" is running: {seen.unverifiable.rstrip('.')}"),
            ("The supervisor starts and stops nothing until it can tell. Check the process on the host, as its user.",),
        )
    if not worker.runs and not seen.enabled:
        setting = Verbatim(f"workers.{name}.enabled")
        todo = ("To run it, set ", setting, " to true in the configuration.")
        return Finding(Cause.NOT_ENABLED, (name, " is disabled in the configuration"), todo)
    if not worker.runs and seen.quarantined:
        todo = ("To run it, remove ", Verbatim(f"workers.{name}.quarantined"), " from the configuration.")
        return Finding(Cause.SET_ASIDE, (name, " is quarantined in the configuration"), todo)
    # Also one that runs and waits; one that runs and is unwell is so for another reason.
    if paused is not None and not worker.survivors and (worker.fine or not worker.runs):
        author: Phrase = (" by ", paused.by) if paused.by else (" by a flag file made by hand",)
        label = f" with the label “{paused.label}”" if paused.label else ""
        runs = "; its process is still running" if worker.runs else ""
        check = "Check with the person who paused it first. " if paused.by else ""
        return Finding(
            Cause.PAUSED,
            (name, " is paused", *author, *optional(" since ", paused.at), label + runs),
            (f"It stays paused until somebody resumes it. {check}", Verbatim("resume"), " starts it."),
            (Command.for_worker("resume", name),),
            paused.at,
        )
    return None


def host_problem(worker: WorkerFacts) -> Finding | None:
    """A signal, the drive, a clock, or what the kernel won't end."""
    name, seen, health = worker.name, worker.seen, worker.health
    frozen = seen.frozen_seconds
    if worker.runs and frozen is not None and (frozen >= FROZEN_SECONDS or not worker.fine):
        ago = f" {format_span(frozen)} ago" if frozen >= 1 else ""
        drive = ("The drive can't be reached either, which is a separate problem",) if worker.drive_problem else ()
        return Finding(
            Cause.FROZEN,
            (name, f" is frozen: stopped by SIGSTOP or a debugger{ago}"),
            ("On the host, ", Verbatim(f"kill -CONT {seen.pid}"), " lets it continue. A restart starts it fresh."),
            restart(worker),
            worker.since if health is Health.FROZEN else None,
            notes(drive),
        )
    # Also behind an exit: what works on the drive can't live without it.
    if worker.drive_problem and not (worker.fine and worker.runs and not seen.max_age_seconds):
        if worker.runs:
            effect: Phrase = (", so the heartbeat of ", name, f" can't be read (pid {seen.pid} is running)")
        elif worker.failed_runs:
            effect = (", and ", name, " isn't running, most likely because of that")
        else:
            unless = " isn't running. It starts without the drive unless its folder or program is on it"
            effect = (", and ", name, unless)
        doctor = (f"{sentence(worker.drive_problem)} On the host, ", Verbatim("supervisor doctor"))
        wait = " itself needs no action: the supervisor checks it again then."
        return Finding(
            Cause.DRIVE_AWAY,
            (f"The shared drive at {worker.drive} can't be reached", *effect),
            (*doctor, " shows when it's back. ", name, wait),
            since=worker.failed_since or worker.since,
        )
    if worker.state is WorkerState.STUCK:
        left = worker.survivors
        named = ", ".join(left[:NAMED_SURVIVORS]) or "some of its processes"
        more = f" and {len(left) - NAMED_SURVIVORS} more" if len(left) > NAMED_SURVIVORS else ""
        wait = "A process in state D waits for a disk or drive and ends when that responds. "
        end = "End any other one on the host, then run "
        return Finding(
            Cause.STUCK,
            (name, f" is stuck: {named}{more} can't be stopped"),
            (wait + end, Verbatim(f"restart {name}"), "."),
            restart(worker),
            worker.since,
        )
    beat = seen.heartbeat
    if worker.runs and health is Health.UNKNOWN and beat and beat.at and beat.at > worker.at:
        ahead, host = (
            format_span((beat.at - worker.at).total_seconds()),
            f" on {beat.hostname}" if beat.hostname else "",
        )
        return Finding(
            Cause.CLOCK,
            ("The heartbeat of ", name, f" is {ahead} in the future: the clock{host} is ahead of this host's"),
            (COMPARE_CLOCKS,),
            since=worker.since,
        )
    return None


def full_disk(worker: WorkerFacts) -> Finding | None:
    if worker.fine:
        return None
    report = excerpts.newest_match(worker.lines, excerpts.NO_SPACE, worker.trouble_since)
    heartbeat = worker.seen.heartbeat
    if not report and heartbeat is not None and excerpts.NO_SPACE.search(heartbeat.error):
        report = heartbeat.error
    if worker.runs:
        is_silent = worker.health in (Health.STALE, Health.MISSING)
        state = "sends no heartbeat" if is_silent else "is unhealthy"
    else:
        state = "exited" if worker.lives else "isn't running"
    disk = next((disk for disk in worker.disks if disk.full), None)
    if disk is not None:
        about = f"The disk of {disk.what} is full ({disk.path}, {disk.free} free), and "
        likely = (": ", Verbatim(report)) if report else (", most likely because of that",)
        text: Phrase = (about, worker.name, f" {state}", *likely)
        todo = f"Free space on the disk of {disk.path}, then restart the worker."
    elif report:
        text = ("A disk is full: ", worker.name, f" {state} and reports no space left: ", Verbatim(report))
        known = ", ".join(f"{disk.what}: {disk.free} free" for disk in worker.disks)
        other = f" The disks known here have room ({known}), so it's another one, or space was freed since."
        todo = f"Find the disk it writes to and free space there.{other if known else ''} Then restart the worker."
    else:
        return None
    return Finding(Cause.DISK_FULL, text, (todo,), restart(worker), worker.trouble_since)


def out_of_memory(worker: WorkerFacts) -> Finding | None:
    """By the kernel's count, or by the worker's own last words; a kill alone proves nothing."""
    name, run = worker.name, worker.last
    if run and not worker.runs and was_killed(run) and run.memory_kills:
        killed = " most likely ran out of memory: it crashed (SIGKILL, not sent by the supervisor) at "
        kernel = f", and the kernel recorded {count(run.memory_kills, 'out-of-memory kill')} on this host while it ran"
        return Finding(
            Cause.OUT_OF_MEMORY,
            (name, killed, run.ended_at, kernel),
            ("On the host, ", OOM_LOG, f" shows which process was killed. {MORE_MEMORY}"),
            restart(worker),
            worker.trouble_since,
            notes(code_is_cleared(worker), gave_up(worker)),
        )
    report = excerpts.newest_match(worker.lines, excerpts.NO_MEMORY, worker.trouble_since)
    if not report or (worker.runs and worker.fine):
        return None
    if worker.runs:
        end: Phrase = ("it's running but unhealthy",)
    else:
        end = (f"it {run_in_words(run)} at ", run.ended_at) if run else ("it isn't running",)
    change = blamed_change(worker)
    after: Phrase = ()
    if change is not None:
        did = f"Shortly before was {CHANGES.get(change.job.handler, 'a change of its code')} by "
        after = (did, change.job.issuer, " at ", change.at, ": the new code may need more memory")
    return Finding(
        Cause.OUT_OF_MEMORY,
        (name, " ran out of memory: ", *end, " and logged ", Verbatim(report)),
        (MORE_MEMORY,),
        restart(worker),
        worker.trouble_since,
        notes(after, gave_up(worker)),
    )


def new_configuration(worker: WorkerFacts) -> Finding | None:
    """The problem began with a configuration, and the code didn't change after it."""
    new, since = worker.settings, worker.trouble_since or (None if worker.runs else worker.since)
    if new is None or worker.fine or (worker.runs and worker.health is Health.FROZEN):
        return None
    if worker.change is not None and worker.change.at > new.begun_at:
        return None
    if not _began_with(new, since, worker):
        return None
    error = excerpts.last_error(worker.lines, since)  # in the worker's own words, else why it can't be started
    reason: Phrase = optional(": ", Verbatim(error) if error else brief(worker.start_error))
    changes = ", ".join(new.changes[:NAMED_CHANGES])
    return Finding(
        Cause.CONFIGURATION,
        (worker.name, " fails with the configuration of ", new.begun_at, f" ({changes}) by ", new.by, *reason),
        ("Correct the configuration. It's applied as soon as the file changes.",),
        restart(worker),
        since or new.begun_at,
    )


def _began_with(new: RecentConfiguration, since: datetime | None, worker: WorkerFacts) -> bool:
    """True if the problem is as old as this configuration. A kill from outside isn't blamed on it."""
    return since is not None and new.begun_at <= since <= new.begun_at + BLAMED and not only_killed(worker)


def new_code(worker: WorkerFacts) -> Finding | None:
    """A change of its code broke it, by the evidence."""
    name, change, since = worker.name, blamed_change(worker), worker.trouble_since
    if change is None:
        return None
    against = evidence(worker, change)
    likely = "Most likely" if against.weight is Weight.STRONG else "Possibly"
    error = excerpts.last_error(worker.lines, since)
    if worker.runs and since is not None:
        effect: Phrase = ("since ", since, f" it has been unhealthy: {worker.bare_reason}")
    else:
        often = len(worker.failed_runs)
        failed = f"failed {times(often)}; the last time it " if often > 1 else ""
        effect = (f"since then it {failed}{run_in_words(worker.failed_runs[-1])}",)
    if change.undoable and not change.undone:
        shared = f" (shared with {change.asked_for})" if change.asked_for != name else ""
        before = short(str(change.job.outcome.details.get("before"))) if change.job.outcome else ""
        todo = f"Undo restores its code{shared} to {before}. Or fix the code and update again."
        undo = Command.for_worker("undo", change.asked_for, {"task_id": change.job.task_id})
        remedies: tuple[Command, ...] = (undo,)
    else:
        todo = "Fix the code and update, or roll back to commits that are known to work."
        remedies = (Command.for_worker("update", name), Command.for_worker("rollback", name))
    did = f"{likely} {CHANGES.get(change.job.handler, 'a change of its code')} by "
    at: Phrase = (" at ", change.at, " broke ", name, ": ")
    return Finding(
        Cause.DEPLOY,
        (did, change.job.issuer, *at, *effect, *optional(": ", quoted(error))),
        (todo,),
        remedies,
        since,
        notes(against.words, gave_up(worker)),
    )


def exited(worker: WorkerFacts) -> Finding | None:
    """It doesn't run, and nothing more fundamental explains that."""
    if worker.runs:
        return None
    name, last, runs = worker.name, worker.last, worker.failed_runs
    start_error = brief(worker.start_error)
    if start_error and not worker.given_up:
        todo: Phrase = ("Fix the error above. It retries automatically.",)
        return Finding(
            Cause.NOT_STARTABLE, (name, f" can't be started: {start_error}"), todo, restart(worker), worker.since
        )
    error = quoted(excerpts.last_error(worker.lines, worker.failed_since))
    if worker.given_up:
        starts = worker.starts
        often = f" after {count(starts, 'restart')} in an hour" if starts else " after it failed"
        if only_killed(worker):
            often += f": crashed (SIGKILL) {times(len(runs))} ({killer(worker)})"
        elif runs:
            often += f": it {run_in_words(runs[-1])}"
        advice = FIND_KILLER if only_killed(worker) else "Fix the cause, then restart it. "
        return Finding(
            Cause.QUARANTINED,
            (name, " was quarantined", *optional(" at ", worker.given_up_at), often, *optional(", with ", error)),
            (f"{advice}A restart ends the quarantine.",),
            restart(worker),
            worker.failed_since or worker.given_up_at,
            notes(unknown_kill(worker), code_is_cleared(worker)),
        )
    if not runs and worker.resting:  # where an exit is known, that is told first, and this beside it
        pause = optional(" by ", worker.resting_by) + optional(" since ", worker.resting_since)
        resume = CommandText("monitoring resume")
        return Finding(
            Cause.MONITORING_PAUSED,
            (name, " isn't started because monitoring is paused", *pause),
            (resume, " lets the supervisor start it. A restart starts only this worker."),
            (Command(resume), *restart(worker)),
            worker.since,
        )
    if runs:
        is_never = worker.policy == "never"
        never = "Its restart.policy is never, so it isn't restarted automatically. " if is_never else ""
        advice = f"{never}Check its log for the cause. A restart starts it now."
        if was_killed(runs[-1]):
            cause, kills = Cause.KILLED, sum(map(was_killed, runs))
            often = f" {times(kills)}, most recently" if kills > 1 else ""
            text: Phrase = (name, f" crashed (SIGKILL){often} at ", runs[-1].ended_at, f" ({killer(worker)})")
            advice = FIND_KILLER + advice
        else:
            cause = Cause.NOT_RESTARTED if is_never else Cause.DIED
            text = (name, f" {run_in_words(runs[-1])}, at ", runs[-1].ended_at, *optional(": ", error))
        often = f". Restarted automatically {worker.starts} times in the last hour" if worker.starts > 1 else ""
        due: Phrase = ("It will restart automatically at ", worker.due_at, often) if worker.due_at else ()
        resting = ("Monitoring is paused, so it isn't restarted automatically",) if worker.resting else ()
        also = notes(unknown_kill(worker), code_is_cleared(worker), due, resting)
        return Finding(cause, text, (advice,), restart(worker), worker.failed_since, also)
    if worker.state in (WorkerState.STARTING, WorkerState.STOPPING):
        return Finding(Cause.UNDER_WAY, (name, f" is {worker.state}"), since=worker.at)
    if last and worker.state is not WorkerState.BACKING_OFF:
        policy = worker.policy or "on-failure"
        return Finding(
            Cause.ENDED_WELL,
            (name, " exited (code 0) at ", last.ended_at, ": its work is done"),
            (f"Its restart.policy is {policy}, so it isn't restarted. A restart starts it.",),
            restart(worker),
            last.ended_at,
        )
    text, todo = (name, " isn't running, and how it ended isn't known"), ("A restart starts it.",)
    return Finding(Cause.NOT_RUNNING, text, todo, restart(worker), worker.since)


def unhealthy(worker: WorkerFacts) -> Finding | None:
    """It runs, and is starting, or its probe or heartbeat is bad."""
    name, seen, health, runs = worker.name, worker.seen, worker.health, worker.failed_runs
    if worker.state is WorkerState.STARTING and runs:
        error = quoted(excerpts.last_error(worker.lines, worker.failed_since))
        after = f" is starting again after it {run_in_words(runs[-1])}, at "
        text: Phrase = (name, after, runs[-1].ended_at, *optional(": ", error))
        return Finding(Cause.UNDER_WAY, text, ("If it fails again, check its log.",), since=worker.at)
    if worker.state in (WorkerState.STARTING, WorkerState.STOPPING):
        return Finding(Cause.UNDER_WAY, (name, f" is {worker.state}"), since=worker.at)
    beat, limit, since = seen.heartbeat, format_span(seen.max_age_seconds), worker.unwell_since
    alive: Phrase = (
        "Check its log, or run ",
        Verbatim(f"diagnostics {name}"),
        " to see what it's doing. A restart starts it fresh.",
    )
    if health not in (Health.STALE, Health.MISSING):
        by_daemon = health is Health.DEGRADED and "probe" in worker.reason  # the daemon runs the probes
        if probe := seen.probe_failing or (worker.bare_reason if by_daemon else ""):
            return Finding(
                Cause.PROBE,
                (name, f" is running and sends heartbeats, but a probe fails: {probe}"),
                ("Run the same check by hand on the host. If its target is up, a restart may help.",),
                restart(worker),
                since,
            )
    if health is Health.DEGRADED:
        last = progressed_at(seen)
        if beat and not beat.error and "no progress" in worker.reason and last:
            works = " is degraded: it sends heartbeats and has work to do, but has made no progress since "
            return Finding(
                Cause.NO_PROGRESS,
                (name, works, last, f" (limit {limit})"),
                ("Its current work takes too long or never ends. ", *alive),
                restart(worker),
                worker.since or last + timedelta(seconds=seen.max_age_seconds),
            )
        own = (", but reports an error: ", Verbatim(beat.error)) if beat and beat.error else (f": {worker.reason}",)
        todo = "Check what this means for the worker. A restart helps only if the cause is gone."
        return Finding(Cause.SAYS_SO, (name, " is running", *own), (todo,), restart(worker), since)
    if health is Health.STALE:
        silent: Phrase = ("its last heartbeat came at ", beat.at) if beat and beat.at else ("it sends no heartbeat",)
        probe = f", and {seen.probe_failing}" if seen.probe_failing else ""
        return Finding(
            Cause.HUNG,
            (name, f" is stale: pid {seen.pid} is running, but ", *silent, f" (limit {limit}){probe}"),
            ("It's waiting or looping. ", *alive),
            restart(worker),
            since,
        )
    if health is Health.MISSING:
        never = f" is running (pid {seen.pid}), but has sent no heartbeat since it started"
        expected: Phrase = ()
        if worker.heartbeat_file:
            file, example = Verbatim(worker.heartbeat_file), Verbatim(HEARTBEAT_EXAMPLE)
            every = f" at least every {limit} with "
            expected = ("It must replace ", file, every, example, " and the current time. ")
        setting: Phrase = ("It",)
        if beat is None:
            off = Verbatim(f"workers.{name}.heartbeat_max_age_seconds")
            setting = ("If it writes no heartbeats, set ", off, " to 0. Otherwise it")
        return Finding(
            Cause.SILENT,
            (name, never, *optional(" at ", seen.started_at)),
            (*expected, *setting, " may hang while starting. ", *alive),
            restart(worker),
            since,
        )
    return None


def healthy(worker: WorkerFacts) -> Finding | None:
    """It runs, perhaps after failures in the last hour."""
    name, seen, run = worker.name, worker.seen, worker.last
    if not worker.fine:
        return None
    is_recent = run is not None and run.failed and worker.at - run.ended_at <= RECOVERED
    if run and is_recent and (seen.started_at is None or seen.started_at >= run.started_at):
        runs = [run for run in worker.lives if run.failed and worker.at - run.ended_at <= RECOVERED]
        often = f"failed {times(len(runs))} within the last hour; the last time it " if len(runs) > 1 else ""
        failed = f" after it {often}{run_in_words(runs[-1])}"
        error = quoted(excerpts.last_error(worker.lines, runs[0].ended_at))
        since = optional(" since ", seen.started_at)
        return Finding(
            Cause.BACK,
            (name, " is running again", *since, failed, *optional(": ", error)),
            ("No action needed while it keeps running. If it fails again, check its log.",),
            since=seen.started_at,
        )
    uptime = f" for {format_span((worker.at - seen.started_at).total_seconds())}" if seen.started_at else ""
    if not seen.max_age_seconds:
        beat = "no heartbeat expected"
    elif seen.heartbeat is None or seen.heartbeat.at is None:
        beat = "waiting for its first heartbeat"
    else:
        beat = f"last heartbeat {format_ago(seen.heartbeat.at, worker.at)}"
    text = (name, f" is healthy: running{uptime}, {beat}")
    return Finding(Cause.WELL, text, since=worker.since or seen.started_at)


RULES: tuple[Callable[[WorkerFacts], Finding | None], ...] = (
    stays_stopped,
    host_problem,
    full_disk,
    out_of_memory,
    new_configuration,
    new_code,
    exited,
    unhealthy,
    healthy,
)


def optional(text: str, value: Part | None) -> Phrase:
    """A value after these words; nothing without it."""
    return (text, value) if value else ()


def notes(*phrases: Phrase) -> tuple[Phrase, ...]:
    return tuple(filter(None, phrases))


def quoted(error: str) -> Part | None:
    return Verbatim(error) if error else None


def restart(worker: WorkerFacts) -> tuple[Command]:
    return (Command.for_worker("restart", worker.name),)


def blamed_change(worker: WorkerFacts) -> RecentChange | None:
    """The change of its code that broke it. A worker that never sent a heartbeat didn't do so before either."""
    never_beat = worker.runs and worker.health is Health.MISSING and worker.seen.heartbeat is None
    return None if never_beat else breaking_change(worker)


def only_killed(worker: WorkerFacts) -> bool:
    return bool(worker.failed_runs) and all(map(was_killed, worker.failed_runs))


def killer(worker: WorkerFacts) -> str:
    """Who didn't kill it, as far as known."""
    known = worker.failed_runs[-1].memory_kills == 0
    return "not sent by the supervisor, no out-of-memory kill recorded" if known else "not sent by the supervisor"


def unknown_kill(worker: WorkerFacts) -> Phrase:
    """It was killed, and the kernel's count is unknown."""
    run = worker.last
    if run is None or not was_killed(run) or run.memory_kills is not None:
        return ()
    return ("Whether the kernel ran out of memory isn't known here. On the host, run ", OOM_LOG)


def code_is_cleared(worker: WorkerFacts) -> Phrase:
    """The age of the newest change of code, if every exit since then came from outside."""
    change, runs = worker.change, worker.failed_runs
    if change is None or worker.runs or not runs or runs[0].ended_at < change.job.filed_at:
        return ()
    if evidence(worker, change).weight is not Weight.NONE:
        return ()
    age = format_span((worker.at - change.at).total_seconds())
    return (f"Code last changed {age} ago; the exits don't point to it",)


def gave_up(worker: WorkerFacts) -> Phrase:
    """It's quarantined, which is told beside its cause."""
    return (f"It isn't restarted automatically: {worker.given_up}",) if worker.given_up else ()
