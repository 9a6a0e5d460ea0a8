"""A worker's situation: what follows from its facts, under the names that the rules use.

A missing text is empty; an unknown moment is None.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from supervisor_core.code.change_plan import short
from supervisor_core.commands.command import Command
from supervisor_core.commands.phrases import Phrase, WorkerName
from supervisor_core.common.errors import CommandText, Verbatim
from supervisor_core.common.text import times
from supervisor_core.common.times import format_ago, format_span
from supervisor_core.diagnosis.why.evidence import BLAMED, ChangeEvidence, Weight, breaking_change, evidence
from supervisor_core.diagnosis.why.model import Disk, RecentConfiguration, WorkerFacts
from supervisor_core.host.logging import excerpts
from supervisor_core.workers.health import HEARTBEAT_EXAMPLE, Health, progressed_at
from supervisor_core.workers.restarts.policy import WorkerRun, run_in_words, was_killed
from supervisor_core.workers.status import brief

LATELY = timedelta(hours=1)
"""A worker that failed within this time and runs again counts as recovered."""

NAMED_CHANGES, NAMED_SURVIVORS = 3, 5

DID = {
    "update_code": "the update",
    "update_code_deps": "the update with dependencies",
    "rollback_code": "the rollback",
    "undo_code": "the undo",
}


class Situation:
    """The facts of one worker, read for its rules."""

    monitoring_resume = CommandText("monitoring resume")
    heartbeat_example = HEARTBEAT_EXAMPLE

    def __init__(self, facts: WorkerFacts) -> None:
        self.facts = facts
        self.name = WorkerName(facts.worker_id)
        self.runs, self.down = facts.runs, not facts.runs
        self.unwell = facts.runs and not facts.fine
        self.never = facts.policy == "never"
        self.failed_runs = facts.failed_runs
        self.last_failed = facts.failed_runs[-1] if facts.failed_runs else None
        self.heartbeat = facts.seen.heartbeat
        self.never_beat = facts.runs and facts.health is Health.MISSING and facts.seen.heartbeat is None
        """True if there's no heartbeat file, not even from before its start."""
        self.change = None if self.never_beat else breaking_change(facts)
        """The change of its code that broke it."""

    def command(self, name: str) -> Command:
        """This command for this worker; an undo is that of the change that broke it."""
        if name == self.monitoring_resume:
            return Command(name)
        if name == "undo" and self.change is not None:
            return Command.for_worker(name, self.change.asked_for, {"task_id": self.change.job.task_id})
        return Command.for_worker(name, self.name)

    @property
    def settings(self) -> RecentConfiguration | None:
        """The configuration that the problem began with, if the code didn't change after it. A kill from outside isn't
        blamed on it."""
        facts, new, since = self.facts, self.facts.settings, self.settings_trouble_since
        if new is None or facts.fine or (self.runs and facts.health is Health.FROZEN):
            return None
        came_with_it = since is not None and new.begun_at <= since <= new.at + BLAMED and not self.only_killed
        if (not new.failed and not came_with_it) or (facts.change is not None and facts.change.at > new.begun_at):
            return None
        return new

    @property
    def settings_trouble_since(self) -> datetime | None:
        return self.facts.trouble_since or (None if self.runs else self.facts.since)

    @property
    def settings_changes(self) -> str:
        return ", ".join(self.settings.changes[:NAMED_CHANGES]) if self.settings else ""

    @property
    def settings_error(self) -> str:
        """The worker's own words with that configuration, else why it can't be started."""
        if error := excerpts.last_error(self.facts.lines, self.settings_trouble_since):
            return Verbatim(error)
        return self.start_problem

    @property
    def start_problem(self) -> str:
        """The error of the last start, without the worker's output."""
        return brief(self.facts.start_error)

    @property
    def drive_matters(self) -> bool:
        """True if the drive is unreachable and the worker may need it: not if it is healthy without a heartbeat."""
        return bool(self.facts.drive_problem and not (self.facts.fine and self.runs and not self.beats))

    @property
    def without_drive(self) -> str:
        if self.runs:
            pid = self.facts.seen.pid
            return f", so the heartbeat of {self.name} can't be read (pid {pid} is running)"
        if self.failed_runs:
            return f", and {self.name} isn't running, most likely because of that"
        return f", and {self.name} isn't running. It starts without the drive unless its folder or program is on it"

    @property
    def full_disk(self) -> Disk | None:
        return next((disk for disk in self.facts.disks if disk.full), None)

    @property
    def full_disk_free(self) -> str:
        return _size(self.full_disk.free_bytes) if self.full_disk else ""

    @property
    def no_space(self) -> str:
        """Its own words about a full disk."""
        said = excerpts.newest_match(self.facts.lines, excerpts.NO_SPACE, self.facts.trouble_since)
        if not said and self.heartbeat is not None and excerpts.NO_SPACE.search(self.heartbeat.error):
            said = self.heartbeat.error
        return Verbatim(said)

    @property
    def roomy_disks(self) -> str:
        return ", ".join(f"{each.what}: {_size(each.free_bytes)} free" for each in self.facts.disks)

    @property
    def how(self) -> str:
        """Its state in brief."""
        if self.runs:
            silent = self.facts.health in (Health.STALE, Health.MISSING)
            return "sends no heartbeat" if silent else "is unhealthy"
        return "isn't running" if not self.facts.lives else "exited"

    @property
    def clock_ahead(self) -> str:
        """The time by which its heartbeat is in the future."""
        at = self.heartbeat.at if self.heartbeat and self.runs and self.facts.health is Health.UNKNOWN else None
        ahead = (at - self.facts.at).total_seconds() if at else 0.0
        return format_span(ahead) if ahead > 0 else ""

    @property
    def frozen_for(self) -> str:
        seconds = self.facts.seen.frozen_seconds
        return format_span(seconds) if seconds is not None and seconds >= 1 else ""

    @property
    def frozen_since(self) -> datetime | None:
        return self.facts.since if self.facts.health is Health.FROZEN else None

    @property
    def survivors(self) -> str:
        left = self.facts.survivors
        named = ", ".join(left[:NAMED_SURVIVORS]) or "some of its processes"
        return f"{named} and {len(left) - NAMED_SURVIVORS} more" if len(left) > NAMED_SURVIVORS else named

    @property
    def ended_at(self) -> datetime | None:
        return self.facts.last.ended_at if self.facts.last and self.down else None

    @property
    def ending(self) -> str:
        return run_in_words(self.last_failed) if self.last_failed else ""

    @property
    def error(self) -> str:
        """The last error that it wrote since it began to fail."""
        return Verbatim(excerpts.last_error(self.facts.lines, self.facts.failed_since))

    @property
    def killed(self) -> bool:
        return bool(self.last_failed and was_killed(self.last_failed))

    @property
    def only_killed(self) -> bool:
        return bool(self.failed_runs) and all(map(was_killed, self.failed_runs))

    @property
    def kills(self) -> str:
        """The number of kills in a row, if more than one."""
        count = sum(map(was_killed, self.failed_runs))
        return times(count) if count > 1 else ""

    @property
    def killer(self) -> str:
        known = self.last_failed and self.last_failed.memory_kills == 0
        return "not sent by the supervisor, no out-of-memory kill recorded" if known else "not sent by the supervisor"

    @property
    def memory_kills(self) -> str:
        """The number of out-of-memory kills on the host during its run, if it was killed."""
        run = self.facts.last
        counted = run.memory_kills if run and self.down and was_killed(run) else None
        return f"{counted} out-of-memory kill{'s' if counted > 1 else ''}" if counted else ""

    @property
    def no_memory(self) -> str:
        """Its own words about a lack of memory."""
        return Verbatim(excerpts.newest_match(self.facts.lines, excerpts.NO_MEMORY, self.facts.trouble_since))

    @property
    def memory_end(self) -> str:
        if self.runs:
            return "it's running but unhealthy"
        return f"it {run_in_words(self.facts.last)}" if self.facts.last else "it isn't running"

    @property
    def kill_unknown(self) -> bool:
        """True if it was killed, and the kernel's count is unknown."""
        run = self.facts.last
        return run is not None and was_killed(run) and run.memory_kills is None

    @property
    def restarts(self) -> str:
        """The number of restarts, and the last exit."""
        starts = self.facts.starts
        often = f" after {starts} restart{'s' if starts > 1 else ''} in an hour" if starts else " after it failed"

        if self.only_killed:
            return f"{often}: crashed (SIGKILL) {times(len(self.failed_runs))} ({self.killer})"
        return f"{often}: it {self.ending}" if self.failed_runs else often

    @property
    def evidence(self) -> ChangeEvidence:
        return evidence(self.facts, self.change) if self.change else ChangeEvidence(Weight.NONE)

    @property
    def likely(self) -> str:
        return "Most likely" if self.evidence.weight is Weight.STRONG else "Possibly"

    @property
    def change_did(self) -> str:
        return DID.get(self.change.job.handler, "a change of its code") if self.change else ""

    @property
    def since_change(self) -> Phrase:
        """The problem since the change that broke it."""
        since = self.facts.trouble_since
        error = excerpts.last_error(self.facts.lines, since)
        quoted: Phrase = (": ", Verbatim(error)) if error else ()
        if self.runs and since is not None:
            return (
                "since ",
                since,
                f" it has been unhealthy: {self.facts.reason.removeprefix('running, but ')}",
                *quoted,
            )
        often = f"failed {times(len(self.failed_runs))}; the last time it " if len(self.failed_runs) > 1 else ""
        return (f"since then it {often}{self.ending}", *quoted)

    @property
    def can_undo(self) -> bool:
        return self.change is not None and self.change.undoable and not self.change.undone

    @property
    def undo_to(self) -> str:
        outcome = self.change.job.outcome if self.change else None
        return short(str(outcome.details.get("before"))) if outcome else ""

    @property
    def shared_code(self) -> str:
        other = self.change.asked_for if self.change else self.name
        return f" (shared with {other})" if other != self.name else ""

    @property
    def cleared_for(self) -> str:
        """The age of the newest change, if every exit since then came from outside."""
        change, row = self.facts.change, self.failed_runs
        if change is None or self.runs or not row or row[0].ended_at < change.job.filed_at:
            return ""
        clear = evidence(self.facts, change).weight is Weight.NONE
        return format_span((self.facts.at - change.at).total_seconds()) if clear else ""

    @property
    def restart_count(self) -> int:
        """The number of automatic restarts within the last hour, if more than one."""
        return self.facts.starts if self.facts.starts > 1 else 0

    @property
    def probe(self) -> str:
        """The failure of its probe, if its heartbeat is fresh."""
        if self.facts.health in (Health.STALE, Health.MISSING):
            return ""
        by_daemon = self.facts.health is Health.DEGRADED and "probe" in self.facts.reason  # which asks it
        known = self.facts.reason.removeprefix("running, but ") if by_daemon else ""
        return self.facts.seen.probe_failing or known

    @property
    def progressed_at(self) -> datetime | None:
        """The time of its last progress, if it makes none."""
        said = self.heartbeat and not self.heartbeat.error and "no progress" in self.facts.reason
        return progressed_at(self.facts.seen) if said and self.facts.health is Health.DEGRADED else None

    @property
    def no_progress_since(self) -> datetime | None:
        at = self.progressed_at
        return self.facts.since or (at and at + timedelta(seconds=self.facts.seen.max_age_seconds))

    @property
    def limit(self) -> str:
        """The age limit of its heartbeat."""
        return format_span(self.facts.seen.max_age_seconds)

    @property
    def reported(self) -> Phrase:
        """The error it reports, else the reason why it counts as degraded."""
        error = self.heartbeat.error if self.heartbeat else ""
        return (", but reports an error: ", Verbatim(error)) if error else (f": {self.facts.reason}",)

    @property
    def recovered_runs(self) -> list[WorkerRun]:
        """Its failures of the last hour, where it runs well again."""
        run, begun = self.facts.last, self.facts.seen.started_at
        if run is None or not run.failed or self.facts.at - run.ended_at > LATELY or not self.facts.fine:
            return []
        if begun is not None and begun < run.started_at:
            return []
        return [each for each in self.facts.lives if each.failed and self.facts.at - each.ended_at <= LATELY]

    @property
    def failures(self) -> str:
        """The number of failures in the last hour, and the last exit."""
        row = self.recovered_runs
        often = f"failed {times(len(row))} within the last hour; the last time it " if len(row) > 1 else ""
        return f"{often}{run_in_words(row[-1])}" if row else ""

    @property
    def recovered_error(self) -> str:
        row = self.recovered_runs
        return Verbatim(excerpts.last_error(self.facts.lines, row[0].ended_at)) if row else ""

    @property
    def uptime(self) -> str:
        started = self.facts.seen.started_at
        return format_span((self.facts.at - started).total_seconds()) if started else ""

    @property
    def beats(self) -> bool:
        return self.facts.seen.max_age_seconds != 0

    @property
    def beat(self) -> str:
        """Its heartbeat in words."""
        if not self.beats:
            return ", no heartbeat expected"
        if self.heartbeat is None or self.heartbeat.at is None:
            return ", waiting for its first heartbeat"
        return f", last heartbeat {format_ago(self.heartbeat.at, self.facts.at)}"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count} bytes"
