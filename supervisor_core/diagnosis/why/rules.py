"""The rules that name the cause of a worker's condition, the most fundamental first.

A drive that is away explains a heartbeat that nobody can read, a full disk explains a crash. A rule says no more than
is known: what only fits is called most likely, with what it was concluded from.

In a template `{…}` is a value of the situation, else of the facts; backticks hold something to be typed; a part in
brackets is left out where one of its values is empty. `{?…}` only asks for a value, `{?!…}` that there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supervisor_core.commands.phrases import Part, Phrase
from supervisor_core.common.errors import Verbatim
from supervisor_core.common.text import sentence
from supervisor_core.diagnosis.why.model import Cause, Finding, WorkerFacts
from supervisor_core.diagnosis.why.situation import Situation
from supervisor_core.workers.health import FROZEN_SECONDS, Health, WorkerState

RESTART = ("restart",)
ALIVE = "what it does there, a look at its log or a report (diagnostics) may say; a restart begins anew."
READ_IT = (
    "[Its restart.policy is never, so it is not started again by itself. {?never}]"
    "What it wrote says more, and a restart tries it at once."
)
UNKNOWN_KILL = (
    "It isn't known here whether the kernel ran out of memory: on the host, `dmesg | grep -i oom`{?kill_unknown}"
)
CLEARED = "Code last changed {cleared_for} ago; the exits don't point to it"
NOT_STARTED = "It is not started again by itself: {given_up}"
STARTED_AGAIN = (
    "It is started again by itself at {due_at}[. It was started by itself {restart_count} times within the last hour]"
)
MONITORING_PAUSED = "Monitoring is paused, so nothing starts it by itself{?resting}"
MORE_MEMORY = "Give it more memory or less to do at a time, or find what keeps so much; then restart it."


@dataclass(frozen=True, slots=True)
class Rule:
    """A cause, when it is the one, the sentence that names it, and what a person does."""

    cause: Cause
    holds: Callable[[Situation], object]
    sentence: str
    """Without the stop at its end."""
    todo: str = ""
    """Sentences; empty where nothing need be done."""
    remedies: tuple[str, ...] = ()
    """The names of commands that do it, the first first."""
    since: tuple[str, ...] = ()
    """The values that say when the trouble began; the first that is known counts."""
    also: tuple[str, ...] = ()
    """Sentences that are added where their values are known."""


RULES = (
    Rule(
        Cause.NOT_KNOWN,
        lambda s: s.facts.seen.unverifiable,
        "Nobody can tell whether {name} runs: {seen.unverifiable.}",
        "Nothing is started or stopped while that is so. Look at it on the host, with the user that it runs as.",
    ),
    Rule(
        Cause.NOT_ENABLED,
        lambda s: s.down and not s.facts.seen.enabled,
        "{name} rests because the configuration says that it is not enabled",
        "To have it run, set `workers.{name}.enabled` to true in the configuration.",
    ),
    Rule(
        Cause.SET_ASIDE,
        lambda s: s.down and s.facts.seen.quarantined,
        "{name} rests because the configuration has it quarantined",
        "To have it run, take `workers.{name}.quarantined` out of the configuration.",
    ),
    Rule(
        Cause.PAUSED,  # also one that runs and waits; one that runs and is unwell is so for another reason
        lambda s: s.facts.paused is not None and not s.facts.survivors and not s.unwell,
        "{name} is paused[ by {paused.by}][ by a flag that was made by hand{?!paused.by}]"
        "[ since {paused.at}][ with the label “{paused.label}”]"
        "[; it runs, and waits{?runs}]",
        "It stays so until somebody resumes it.[ Ask whoever paused it whether it may go on;{?paused.by}] "
        "`resume` starts it again.",
        ("resume",),
        ("paused.at",),
    ),
    Rule(
        Cause.FROZEN,
        lambda s: s.runs and _frozen(s),
        "{name} was stopped by a signal (SIGSTOP or a debugger), and does nothing until it is continued"
        "[; it has been seen so for {frozen_for}]",
        "On the host, `kill -CONT {seen.pid}` has it go on where it stands; a restart begins anew.",
        RESTART,
        ("frozen_since",),
        ("The drive can't be reached either; that is another trouble{?drive_problem}",),
    ),
    Rule(
        Cause.DRIVE_AWAY,  # also behind an end by itself: what works on the drive can't live without it
        lambda s: s.drive_matters,
        "The shared drive at {drive} can't be reached{without_drive}",
        "{drive_problem!} `supervisor doctor` on the host says when it is there. {name} itself needs nothing: it is "
        "looked at again by then.",
        since=("failed_since", "since"),
    ),
    Rule(
        Cause.STUCK,
        lambda s: s.facts.state is WorkerState.STUCK,
        "{name} is stuck: {survivors} could not be ended",
        "A process in state D waits for a disk or a drive, and ends when that answers; another one is to be ended on "
        "the host. Then `restart {name}`.",
        RESTART,
        ("since",),
    ),
    Rule(
        Cause.CLOCK,
        lambda s: s.clock_ahead,
        "The heartbeat of {name} is {clock_ahead} in the future, so the clocks[ on {heartbeat.hostname}] and here "
        "differ",
        "Compare the clocks and put them right (NTP). Nothing is done to the worker meanwhile: its process is there.",
        since=("since",),
    ),
    Rule(
        Cause.DISK_FULL,
        lambda s: not s.facts.fine and s.full_disk,
        "The disk of {full_disk.what} ({full_disk.path}, {full_disk_free} free) is full, and {name} {how}"
        "[ most likely because of that{?!no_space}][: {no_space}]",
        "Make room on the disk of {full_disk.path}, then restart it.",
        RESTART,
        ("trouble_since",),
    ),
    Rule(
        Cause.DISK_FULL,
        lambda s: not s.facts.fine and s.no_space,
        "A disk is full: {name} {how}, and says that no space is left: {no_space}",
        "Find the disk that it writes to, and make room there.[ Of the disks that I know, {roomy_disks}: it is another "
        "one, or room was made since.] Once there is room, restart it.",
        RESTART,
        ("trouble_since",),
    ),
    Rule(
        Cause.OUT_OF_MEMORY,  # by the kernel's count, or by its own last words; a kill alone proves nothing
        lambda s: s.memory_kills,
        "{name} ran out of memory, most likely: it was killed at {ended_at} and nobody here asked for it, while the "
        "kernel counts that {memory_kills} killed for lack of memory on this host during its life",
        f"On the host, `dmesg | grep -i oom` names which. {MORE_MEMORY}",
        RESTART,
        ("trouble_since",),
        (CLEARED, NOT_STARTED),
    ),
    Rule(
        Cause.OUT_OF_MEMORY,
        lambda s: (s.down or s.unwell) and s.no_memory,
        "{name} ran out of memory: {memory_end}[ at {ended_at}], and it wrote {no_memory}",
        MORE_MEMORY,
        RESTART,
        ("trouble_since",),
        (
            "Shortly before came {change_did} by {change.job.issuer} at {change.at}: it may need more memory since",
            NOT_STARTED,
        ),
    ),
    Rule(
        Cause.CONFIGURATION,
        lambda s: s.settings,
        "{name} doesn't run well with the configuration of {settings.begun_at} ({settings_changes}) by {settings.by}"
        "[: {settings_error}]",
        "Correct the configuration. It's applied as soon as the file changes.",
        RESTART,
        ("settings_trouble_since", "settings.begun_at"),
    ),
    Rule(
        Cause.DEPLOY,
        lambda s: s.can_undo,
        "{likely} {change_did} by {change.job.issuer} at {change.at} broke {name}: {since_change}",
        "Undo puts its code{shared_code} back to {undo_to}. Or mend it, and update again.",
        ("undo",),
        ("trouble_since",),
        ("{evidence.words}", NOT_STARTED),
    ),
    Rule(
        Cause.DEPLOY,
        lambda s: s.change,
        "{likely} {change_did} by {change.job.issuer} at {change.at} broke {name}: {since_change}",
        "Mend the code and update, or roll back to commits that are known to work.",
        ("update", "rollback"),
        ("trouble_since",),
        ("{evidence.words}", NOT_STARTED),
    ),
    Rule(
        Cause.NOT_STARTABLE,
        lambda s: s.down and s.facts.start_error,
        "{name} can't be started: {start_error.}",
        "Put that right: in the configuration it is read at once, and the start is tried again.",
        RESTART,
        ("since",),
    ),
    Rule(
        Cause.QUARANTINED,
        lambda s: s.down and s.facts.given_up and s.only_killed,
        "{name} is quarantined[ since {given_up_at}]{restarts}[, with {error}]",
        "Find who or what on the host did it. A restart ends the quarantine and starts it.",
        RESTART,
        ("failed_since", "given_up_at"),
        (UNKNOWN_KILL, CLEARED),
    ),
    Rule(
        Cause.QUARANTINED,
        lambda s: s.down and s.facts.given_up,
        "{name} is quarantined[ since {given_up_at}]{restarts}[, with {error}]",
        "Once that is mended, a restart ends the quarantine and starts it.",
        RESTART,
        ("failed_since", "given_up_at"),
        (UNKNOWN_KILL, CLEARED),
    ),
    Rule(
        Cause.KILLED,
        lambda s: s.down and s.killed,
        "{name} was killed by SIGKILL[ {kills}, the last time] at {last_failed.ended_at} ({killer})",
        f"Find who or what on the host did it. {READ_IT}",
        RESTART,
        ("failed_since",),
        (UNKNOWN_KILL, CLEARED, STARTED_AGAIN, MONITORING_PAUSED),
    ),
    Rule(
        Cause.MONITORING_PAUSED,  # where an end is known, that is told first, and this beside it
        lambda s: s.down and s.facts.resting and not s.failed_runs,
        "{name} does not run, and monitoring is paused[ by {resting_by}][ since {resting_since}]: nothing is started",
        "{monitoring_resume} has the supervisor start it; a restart starts it alone.",
        ("monitoring resume", "restart"),
        ("since",),
    ),
    Rule(
        Cause.NOT_RESTARTED,
        lambda s: s.down and s.failed_runs and s.never,
        "{name} {ending}, at {last_failed.ended_at}[, with {error}]",
        READ_IT,
        RESTART,
        ("failed_since",),
        (CLEARED, STARTED_AGAIN, MONITORING_PAUSED),
    ),
    Rule(
        Cause.DIED,
        lambda s: s.down and s.failed_runs,
        "{name} {ending}, at {last_failed.ended_at}[, with {error}]",
        READ_IT,
        RESTART,
        ("failed_since",),
        (CLEARED, STARTED_AGAIN, MONITORING_PAUSED),
    ),
    Rule(
        Cause.UNDER_WAY,
        lambda s: s.facts.state in (WorkerState.STARTING, WorkerState.STOPPING),
        "{name} is {state}: this is under way",
        since=("at",),
    ),
    Rule(
        Cause.ENDED_WELL,
        lambda s: s.ended_at and not s.failed_runs and s.facts.state is not WorkerState.BACKING_OFF,
        "{name} ended at {ended_at} by itself with exit code 0: its work was done",
        "Its restart.policy is [{policy}][on-failure{?!policy}], so it rests. A restart has it begin anew.",
        RESTART,
        ("ended_at",),
    ),
    Rule(
        Cause.NOT_RUNNING,
        lambda s: s.down,
        "{name} does not run, and nobody saw its end",
        "A restart starts it.",
        RESTART,
        ("since",),
    ),
    Rule(
        Cause.PROBE,
        lambda s: s.probe,
        "{name} runs and beats, but does not answer as it should: {probe}",
        "Try the same by hand on the host. If what it asks is there, a restart of the worker may help.",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.NO_PROGRESS,
        lambda s: s.progressed_at,
        "{name} is stuck: it beats and has work to do, and has made no progress since {progressed_at}; more than "
        "{limit} ago is too long",
        f"What it works on takes too long, or never ends: {ALIVE}",
        RESTART,
        ("no_progress_since",),
    ),
    Rule(
        Cause.SAYS_SO,
        lambda s: s.facts.health is Health.DEGRADED,
        "{name} runs{reported}",
        "That is for whoever knows the worker; a restart helps only where its cause is gone.",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.HUNG,
        lambda s: s.facts.health is Health.STALE,
        "{name} hangs: its process is there (pid {seen.pid}) and says nothing[: its last heartbeat came at "
        "{heartbeat.at}], and more than {limit} ago is too long[, and {seen.probe_failing}]",
        f"It waits or turns in circles: {ALIVE}",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.SILENT,
        lambda s: s.facts.health is Health.MISSING,
        "{name} runs (pid {seen.pid}), and has sent no heartbeat since it was started[ at {seen.started_at}]",
        f"Either it hangs in its start: {ALIVE} Or it writes its heartbeat elsewhere than where it is looked for: "
        "`nas.folders.state`; or it writes none, and then `workers.{name}.heartbeat_max_age_seconds` is to be 0.",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.BACK,
        lambda s: s.recovered_runs,
        "{name} runs again[ since {seen.started_at}], after it {failures}[, with {recovered_error}]",
        "Nothing, as long as it keeps running. If it goes on so, what it wrote says why.",
        since=("seen.started_at",),
    ),
    Rule(
        Cause.WELL,
        lambda s: s.facts.fine,
        "{name} is well: it runs[ since {seen.started_at}, for {uptime}]{beat}",
        since=("since", "seen.started_at"),
    ),
    Rule(Cause.OTHER, lambda _: True, "{name}: {reason}", since=("since",)),
)


def find_cause(facts: WorkerFacts) -> Finding:
    """Apply the first rule that holds."""
    situation = Situation(facts)
    rule = next(rule for rule in RULES if rule.holds(situation))
    return Finding(
        cause=rule.cause,
        sentence=fill(rule.sentence, situation),
        todo=fill(rule.todo, situation),
        remedies=tuple(map(situation.command, rule.remedies)),
        since=next(filter(None, (value_of(situation, name) for name in rule.since)), None),
        also=tuple(fill(each, situation) for each in rule.also if is_known(each, situation)),
    )


_OPTIONAL = re.compile(r"\[([^\]]+)\]")
_TOKEN = re.compile(r"`(?P<typed>[^`]+)`|\{(?P<value>[^}]+)\}|(?P<text>[^`{]+)")


def fill(template: str, situation: Situation) -> Phrase:
    """The phrase that a template makes of a situation."""
    found: list[Part] = []
    for number, part in enumerate(_OPTIONAL.split(template)):
        if number % 2 and not is_known(part, situation):
            continue
        for token in _TOKEN.finditer(part):
            if token["typed"]:
                found.append(Verbatim("".join(map(str, fill(token["typed"], situation)))))
            elif token["text"]:
                found.append(token["text"])
            elif not token["value"].startswith("?"):
                value = value_of(situation, token["value"])
                found += value if isinstance(value, tuple) else [value if isinstance(value, Part) else str(value)]
    return tuple(found)


def is_known(template: str, situation: Situation) -> bool:
    """Whether all values outside of its optional parts are known."""
    return all(value_of(situation, name) for name in re.findall(r"\{([^}]+)\}", _OPTIONAL.sub("", template)))


def value_of(situation: Situation, name: str) -> Any:  # noqa: ANN401
    """A value by its name, `heartbeat.at`; None where a part of the way is. `name.` is a text without its stop,
    `name!` one with it."""
    if name.startswith("?!"):
        return not value_of(situation, name[2:])
    first, *others = name.strip("?.!").split(".")
    value = getattr(situation if hasattr(situation, first) else situation.facts, first)
    for each in others:
        value = None if value is None else getattr(value, each)
    return value.rstrip(".") if name.endswith(".") else sentence(value) if name.endswith("!") else value


def _frozen(situation: Situation) -> bool:
    seconds = situation.facts.seen.frozen_seconds
    return seconds is not None and (seconds >= FROZEN_SECONDS or not situation.facts.fine)
