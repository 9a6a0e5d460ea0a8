"""The rules that name the cause of a worker's condition, the most fundamental first.

An unreachable drive explains an unreadable heartbeat, and a full disk explains a crash. A rule claims no more than is
known: an inference is called most likely, with its evidence.

In a template, `{…}` is a value of the situation, else of the facts. Backticks hold something to type. A part in
brackets is left out if one of its values is empty. `{?…}` only tests a value, and `{?!…}` tests that it is empty.
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
ALIVE = "Check its log, or run `diagnostics {name}` to see what it's doing. A restart starts it fresh."
READ_IT = (
    "[Its restart.policy is never, so it isn't restarted automatically. {?never}]"
    "Check its log for the cause. A restart starts it now."
)
UNKNOWN_KILL = (
    "Whether the kernel ran out of memory isn't known here. On the host, run `dmesg | grep -i oom`{?kill_unknown}"
)
CLEARED = "Code last changed {cleared_for} ago; the exits don't point to it"
NOT_STARTED = "It isn't restarted automatically: {given_up}"
STARTED_AGAIN = (
    "It will restart automatically at {due_at}[. Restarted automatically {restart_count} times in the last hour]"
)
MONITORING_PAUSED = "Monitoring is paused, so it isn't restarted automatically{?resting}"
MORE_MEMORY = "Give it more memory, reduce its work, or fix the leak. Then restart it."


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
    """The values for the start of the problem; the first known one counts."""
    also: tuple[str, ...] = ()
    """Sentences that are added where their values are known."""


RULES = (
    Rule(
        Cause.NOT_KNOWN,
        lambda s: s.facts.seen.unverifiable,
        "Can't tell whether {name} is running: {seen.unverifiable.}",
        "The supervisor starts and stops nothing until it can tell. Check the process on the host, as its user.",
    ),
    Rule(
        Cause.NOT_ENABLED,
        lambda s: s.down and not s.facts.seen.enabled,
        "{name} is disabled in the configuration",
        "To run it, set `workers.{name}.enabled` to true in the configuration.",
    ),
    Rule(
        Cause.SET_ASIDE,
        lambda s: s.down and s.facts.seen.quarantined,
        "{name} is quarantined in the configuration",
        "To run it, remove `workers.{name}.quarantined` from the configuration.",
    ),
    Rule(
        Cause.PAUSED,  # also one that runs and waits; one that runs and is unwell is so for another reason
        lambda s: s.facts.paused is not None and not s.facts.survivors and not s.unwell,
        "{name} is paused[ by {paused.by}][ by a flag file made by hand{?!paused.by}]"
        "[ since {paused.at}][ with the label “{paused.label}”]"
        "[; its process is still running{?runs}]",
        "It stays paused until somebody resumes it.[ Check with the person who paused it first.{?paused.by}] "
        "`resume` starts it.",
        ("resume",),
        ("paused.at",),
    ),
    Rule(
        Cause.FROZEN,
        lambda s: s.runs and _frozen(s),
        "{name} is frozen: stopped by SIGSTOP or a debugger[ {frozen_for} ago]",
        "On the host, `kill -CONT {seen.pid}` lets it continue. A restart starts it fresh.",
        RESTART,
        ("frozen_since",),
        ("The drive can't be reached either, which is a separate problem{?drive_problem}",),
    ),
    Rule(
        Cause.DRIVE_AWAY,  # also behind an end by itself: what works on the drive can't live without it
        lambda s: s.drive_matters,
        "The shared drive at {drive} can't be reached{without_drive}",
        "{drive_problem!} On the host, `supervisor doctor` shows when it's back. {name} itself needs no action: the "
        "supervisor checks it again then.",
        since=("failed_since", "since"),
    ),
    Rule(
        Cause.STUCK,
        lambda s: s.facts.state is WorkerState.STUCK,
        "{name} is stuck: {survivors} can't be stopped",
        "A process in state D waits for a disk or drive and ends when that responds. End any other one on the host, "
        "then run `restart {name}`.",
        RESTART,
        ("since",),
    ),
    Rule(
        Cause.CLOCK,
        lambda s: s.clock_ahead,
        "The heartbeat of {name} is {clock_ahead} in the future: the clock[ on {heartbeat.hostname}] is ahead of "
        "this host's",
        "Compare the clocks and sync them (NTP). The supervisor leaves the worker alone: its process is running.",
        since=("since",),
    ),
    Rule(
        Cause.DISK_FULL,
        lambda s: not s.facts.fine and s.full_disk,
        "The disk of {full_disk.what} is full ({full_disk.path}, {full_disk_free} free), and {name} {how}"
        "[, most likely because of that{?!no_space}][: {no_space}]",
        "Free space on the disk of {full_disk.path}, then restart the worker.",
        RESTART,
        ("trouble_since",),
    ),
    Rule(
        Cause.DISK_FULL,
        lambda s: not s.facts.fine and s.no_space,
        "A disk is full: {name} {how} and reports no space left: {no_space}",
        "Find the disk it writes to and free space there.[ The disks known here have room ({roomy_disks}), so it's "
        "another one, or space was freed since.] Then restart the worker.",
        RESTART,
        ("trouble_since",),
    ),
    Rule(
        Cause.OUT_OF_MEMORY,  # by the kernel's count, or by its own last words; a kill alone proves nothing
        lambda s: s.memory_kills,
        "{name} most likely ran out of memory: it crashed (SIGKILL, not sent by the supervisor) at {ended_at}, and the "
        "kernel recorded {memory_kills} on this host while it ran",
        f"On the host, `dmesg | grep -i oom` shows which process was killed. {MORE_MEMORY}",
        RESTART,
        ("trouble_since",),
        (CLEARED, NOT_STARTED),
    ),
    Rule(
        Cause.OUT_OF_MEMORY,
        lambda s: (s.down or s.unwell) and s.no_memory,
        "{name} ran out of memory: {memory_end}[ at {ended_at}] and logged {no_memory}",
        MORE_MEMORY,
        RESTART,
        ("trouble_since",),
        (
            "Shortly before was {change_did} by {change.job.issuer} at {change.at}: the new code may need more memory",
            NOT_STARTED,
        ),
    ),
    Rule(
        Cause.CONFIGURATION,
        lambda s: s.settings,
        "{name} fails with the configuration of {settings.begun_at} ({settings_changes}) by {settings.by}"
        "[: {settings_error}]",
        "Correct the configuration. It's applied as soon as the file changes.",
        RESTART,
        ("settings_trouble_since", "settings.begun_at"),
    ),
    Rule(
        Cause.DEPLOY,
        lambda s: s.can_undo,
        "{likely} {change_did} by {change.job.issuer} at {change.at} broke {name}: {since_change}",
        "Undo restores its code{shared_code} to {undo_to}. Or fix the code and update again.",
        ("undo",),
        ("trouble_since",),
        ("{evidence.words}", NOT_STARTED),
    ),
    Rule(
        Cause.DEPLOY,
        lambda s: s.change,
        "{likely} {change_did} by {change.job.issuer} at {change.at} broke {name}: {since_change}",
        "Fix the code and update, or roll back to commits that are known to work.",
        ("update", "rollback"),
        ("trouble_since",),
        ("{evidence.words}", NOT_STARTED),
    ),
    Rule(
        Cause.NOT_STARTABLE,
        lambda s: s.down and s.facts.start_error and not s.facts.given_up,
        "{name} can't be started: {start_problem.}",
        "Fix the error above. It retries automatically.",
        RESTART,
        ("since",),
    ),
    Rule(
        Cause.QUARANTINED,
        lambda s: s.down and s.facts.given_up and s.only_killed,
        "{name} was quarantined[ at {given_up_at}]{restarts}[, with {error}]",
        "Find out who or what on the host killed it. A restart ends the quarantine.",
        RESTART,
        ("failed_since", "given_up_at"),
        (UNKNOWN_KILL, CLEARED),
    ),
    Rule(
        Cause.QUARANTINED,
        lambda s: s.down and s.facts.given_up,
        "{name} was quarantined[ at {given_up_at}]{restarts}[, with {error}]",
        "Fix the cause, then restart it. A restart ends the quarantine.",
        RESTART,
        ("failed_since", "given_up_at"),
        (UNKNOWN_KILL, CLEARED),
    ),
    Rule(
        Cause.KILLED,
        lambda s: s.down and s.killed,
        "{name} crashed (SIGKILL)[ {kills}, most recently] at {last_failed.ended_at} ({killer})",
        f"Find out who or what on the host killed it. {READ_IT}",
        RESTART,
        ("failed_since",),
        (UNKNOWN_KILL, CLEARED, STARTED_AGAIN, MONITORING_PAUSED),
    ),
    Rule(
        Cause.MONITORING_PAUSED,  # where an end is known, that is told first, and this beside it
        lambda s: s.down and s.facts.resting and not s.failed_runs,
        "{name} isn't started because monitoring is paused[ by {resting_by}][ since {resting_since}]",
        "{monitoring_resume} lets the supervisor start it. A restart starts only this worker.",
        ("monitoring resume", "restart"),
        ("since",),
    ),
    Rule(
        Cause.NOT_RESTARTED,
        lambda s: s.down and s.failed_runs and s.never,
        "{name} {ending}, at {last_failed.ended_at}[: {error}]",
        READ_IT,
        RESTART,
        ("failed_since",),
        (CLEARED, STARTED_AGAIN, MONITORING_PAUSED),
    ),
    Rule(
        Cause.DIED,
        lambda s: s.down and s.failed_runs,
        "{name} {ending}, at {last_failed.ended_at}[: {error}]",
        READ_IT,
        RESTART,
        ("failed_since",),
        (CLEARED, STARTED_AGAIN, MONITORING_PAUSED),
    ),
    Rule(
        Cause.UNDER_WAY,
        lambda s: s.facts.state is WorkerState.STARTING and s.runs and s.failed_runs,
        "{name} is starting again after it {ending}, at {last_failed.ended_at}[: {error}]",
        "If it fails again, check its log.",
        since=("at",),
    ),
    Rule(
        Cause.UNDER_WAY,
        lambda s: s.facts.state in (WorkerState.STARTING, WorkerState.STOPPING),
        "{name} is {state}",
        since=("at",),
    ),
    Rule(
        Cause.ENDED_WELL,
        lambda s: s.ended_at and not s.failed_runs and s.facts.state is not WorkerState.BACKING_OFF,
        "{name} exited (code 0) at {ended_at}: its work is done",
        "Its restart.policy is [{policy}][on-failure{?!policy}], so it isn't restarted. A restart starts it.",
        RESTART,
        ("ended_at",),
    ),
    Rule(
        Cause.NOT_RUNNING,
        lambda s: s.down,
        "{name} isn't running, and how it ended isn't known",
        "A restart starts it.",
        RESTART,
        ("since",),
    ),
    Rule(
        Cause.PROBE,
        lambda s: s.probe,
        "{name} is running and sends heartbeats, but a probe fails: {probe}",
        "Run the same check by hand on the host. If its target is up, a restart may help.",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.NO_PROGRESS,
        lambda s: s.progressed_at,
        "{name} is degraded: it sends heartbeats and has work to do, but has made no progress since {progressed_at} "
        "(limit {limit})",
        f"Its current work takes too long or never ends. {ALIVE}",
        RESTART,
        ("no_progress_since",),
    ),
    Rule(
        Cause.SAYS_SO,
        lambda s: s.facts.health is Health.DEGRADED,
        "{name} is running{reported}",
        "Check what this means for the worker. A restart helps only if the cause is gone.",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.HUNG,
        lambda s: s.facts.health is Health.STALE,
        "{name} is stale: pid {seen.pid} is running, but [its last heartbeat came at {heartbeat.at}]"
        "[it sends no heartbeat{?!heartbeat.at}] (limit {limit})[, and {seen.probe_failing}]",
        f"It's waiting or looping. {ALIVE}",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.SILENT,
        lambda s: s.facts.health is Health.MISSING,
        "{name} is running (pid {seen.pid}), but has sent no heartbeat since it started[ at {seen.started_at}]",
        "[It must replace `{heartbeat_file}` at least every {limit} with `{heartbeat_example}` and the current time. ]"
        "[If it writes no heartbeats, set `workers.{name}.heartbeat_max_age_seconds` to 0. Otherwise it{?never_beat}]"
        "[It{?!never_beat}] may hang while starting. "
        f"{ALIVE}",
        RESTART,
        ("unwell_since",),
    ),
    Rule(
        Cause.BACK,
        lambda s: s.recovered_runs,
        "{name} is running again[ since {seen.started_at}] after it {failures}[: {recovered_error}]",
        "No action needed while it keeps running. If it fails again, check its log.",
        since=("seen.started_at",),
    ),
    Rule(
        Cause.WELL,
        lambda s: s.facts.fine,
        "{name} is healthy: running[ for {uptime}]{beat}",
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
    """True if all values outside of the optional parts are known."""
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
