"""Whether a configuration is why a worker isn't well: its trouble began when it was restarted for it.

The rules that name the cause of a trouble, the most fundamental first: a drive that is away explains a heartbeat
that nobody can read, a full disk explains a crash.

A rule says no more than is known: what only fits is called most likely, with what it was concluded from.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from supervisor_core.commands.phrases import Phrase, format_span
from supervisor_core.common.errors import Verbatim
from supervisor_core.common.text import sentence
from supervisor_core.diagnosis.why.code_causes import out_of_memory, the_change
from supervisor_core.diagnosis.why.down_causes import DOWN
from supervisor_core.diagnosis.why.model import Cause, Facts, Found, NewSettings, began
from supervisor_core.diagnosis.why.running_causes import RUNNING, unwell_since
from supervisor_core.host.logging import excerpts as log_lines
from supervisor_core.workers.health import FROZEN_SECONDS, Health, WorkerState

BLAMED = timedelta(hours=1)
"""A worker that ran for longer with its new settings didn't fail because of them, as far as anybody can tell."""

NAMED = 3


def the_configuration(facts: Facts) -> Found | None:
    """A configuration, where the trouble began with it and no change of the code came after it."""
    new = facts.settings
    since = unwell_since(facts) if facts.runs else began(facts) or facts.since
    if new is None or facts.fine or (facts.runs and facts.health is Health.FROZEN):
        return None
    if not new.failed and not _came_with_it(new, since):
        return None
    if facts.change is not None and facts.change.at > new.begun_at:
        return None
    error = log_lines.last_error(facts.lines, since)
    start = facts.start_error.splitlines()[0].removesuffix(" Its last words:").rstrip(".") if facts.start_error else ""
    said: Phrase = (": ", Verbatim(error)) if error else (f": {start}",) if start else ()
    words: Phrase = (
        f"{facts.worker_id} doesn't run well with the configuration of ",
        new.begun_at,
        f" ({', '.join(new.changes[:NAMED])}) by ",
        new.by,
        *said,
    )
    todo = "Correct the configuration. It's applied as soon as the file changes."
    restart = facts.command("restart")
    return Found(Cause.CONFIGURATION, words, (todo,), (restart,), since or new.begun_at)


def _came_with_it(new: NewSettings, since: datetime | None) -> bool:
    return since is not None and new.begun_at <= since <= new.at + BLAMED


Rule = Callable[[Facts], Found | None]


def cause_of(facts: Facts) -> Found:
    """What the first rule says that has something to say."""
    for rule in RULES:
        found = rule(facts)
        if found is not None:
            return found
    return Found(Cause.OTHER, (f"{facts.worker_id}: {facts.reason}",), since=facts.since)


def _not_enabled(facts: Facts) -> Found | None:
    name = facts.worker_id
    if not facts.seen.enabled and not facts.runs:
        todo: Phrase = ("To have it run, set ", Verbatim(f"workers.{name}.enabled"), " to true in the configuration.")
        return Found(Cause.NOT_ENABLED, (f"{name} rests because the configuration says that it is not enabled",), todo)
    if facts.seen.quarantined and not facts.runs:
        todo = ("To have it run, take ", Verbatim(f"workers.{name}.quarantined"), " out of the configuration.")
        return Found(Cause.SET_ASIDE, (f"{name} rests because the configuration has it quarantined",), todo)
    return None


def _paused(facts: Facts) -> Found | None:
    """Also of one that runs and waits; one that runs and is unwell is so for another reason."""
    if facts.paused is None or facts.survivors or (facts.runs and not facts.fine):
        return None
    name, pause = facts.worker_id, facts.paused
    by: Phrase = (" by ", pause.by) if pause.by else (" by a flag that was made by hand",)
    since: Phrase = (" since ", pause.at) if pause.at else ()
    label: Phrase = (f" with the label “{pause.label}”",) if pause.label else ()
    waits = "; it runs, and waits" if facts.runs else ""
    who: Phrase = (*by, *since, *label, waits)
    asked = " Ask whoever paused it whether it may go on;" if pause.by else ""
    todo: Phrase = (f"It stays so until somebody resumes it.{asked} ", Verbatim("resume"), " starts it again.")
    return Found(Cause.PAUSED, (f"{name} is paused", *who), todo, (facts.command("resume"),), pause.at)


def _not_known(facts: Facts) -> Found | None:
    if not facts.seen.unverifiable:
        return None
    todo = "Nothing is started or stopped while that is so. Look at it on the host, with the user that it runs as."
    words = f"nobody can tell whether {facts.worker_id} runs: {facts.seen.unverifiable.rstrip('.')}"
    return Found(Cause.NOT_KNOWN, (words[0].upper() + words[1:],), (todo,))


def _drive_away(facts: Facts) -> Found | None:
    """Also behind an end by itself: what works on the drive can't live without it."""
    alive = facts.runs and facts.fine and facts.seen.max_age_seconds == 0
    if not facts.drive_problem or alive:  # of that one no heartbeat is expected
        return None
    name, ended = facts.worker_id, began(facts)
    words = f"The shared drive at {facts.drive} can't be reached"
    if facts.runs:
        words += f", so nobody can read the heartbeat of {name}; its process is there (pid {facts.seen.pid})"
    elif ended:
        words += f", and {name} does not run; most likely it can't without the drive"
    else:
        words += f", and {name} doesn't run; it's started without the drive unless its folder or program lies there"
    todo: Phrase = (
        f"{sentence(facts.drive_problem)} ",
        Verbatim("supervisor doctor"),
        f" on the host says when it is there. {name} itself needs nothing: it is looked at again by then.",
    )
    return Found(Cause.DRIVE_AWAY, (words,), todo, since=ended or facts.since)


def _frozen(facts: Facts) -> Found | None:
    seconds = facts.seen.frozen_seconds
    if seconds is None or not facts.runs or (seconds < FROZEN_SECONDS and facts.fine):
        return None
    name, pid = facts.worker_id, facts.seen.pid
    words = f"{name} was stopped by a signal (SIGSTOP or a debugger), and does nothing until it is continued"
    known = f"; it has been seen so for {format_span(seconds)}" if seconds >= 1 else ""
    todo: Phrase = (
        "On the host, ",
        Verbatim(f"kill -CONT {pid}"),
        " has it go on where it stands; a restart begins anew.",
    )
    since = facts.since if facts.health is Health.FROZEN else None
    also: Phrase = ("The drive can't be reached either; that is another trouble",)
    others = (also,) if facts.drive_problem else ()
    return Found(Cause.FROZEN, (f"{words}{known}",), todo, (facts.command("restart"),), since, others)


def _stuck(facts: Facts) -> Found | None:
    if facts.state is not WorkerState.STUCK:
        return None
    name = facts.worker_id
    left = ", ".join(facts.survivors[:5]) or "processes of it"
    more = f" and {len(facts.survivors) - 5} more" if len(facts.survivors) > 5 else ""
    words = f"{name} is stuck: {left}{more} could not be ended"
    pids = "A process in state D waits for a disk or a drive, and ends when that answers; "
    todo: Phrase = (f"{pids}another one is to be ended on the host. Then ", Verbatim(f"restart {name}"), ".")
    return Found(Cause.STUCK, (words,), todo, (facts.command("restart"),), facts.since)


def _clock(facts: Facts) -> Found | None:
    beat = facts.seen.heartbeat
    if not facts.runs or facts.health is not Health.UNKNOWN or beat is None or beat.at is None:
        return None
    ahead = (beat.at - facts.at).total_seconds()
    if ahead <= 0:
        return None
    where = f" on {beat.hostname}" if beat.hostname else ""
    lead = format_span(ahead)
    words = f"the heartbeat of {facts.worker_id} is {lead} in the future, so the clocks{where} and here differ"
    todo = "Compare the clocks and put them right (NTP). Nothing is done to the worker meanwhile: its process is there."
    return Found(Cause.CLOCK, (words[0].upper() + words[1:],), (todo,), since=facts.since)


def _disk_full(facts: Facts) -> Found | None:
    """By what it said itself, else by a disk that is full while it is unwell."""
    if facts.fine:
        return None
    name, since = facts.worker_id, began(facts) if not facts.runs else unwell_since(facts)
    said = log_lines.newest_match(facts.lines, log_lines.NO_SPACE, since)
    beat = facts.seen.heartbeat
    if not said and beat is not None and log_lines.NO_SPACE.search(beat.error):
        said = beat.error
    full = [disk for disk in facts.disks if disk.full]
    if not said and not full:
        return None
    how = _how(facts)
    if full:
        disk = full[0]
        place = f"{disk.what} ({disk.path}, {_size(disk.free_bytes)} free)"
        likely = "" if said else " most likely because of that"
        words = f"The disk of {place} is full, and {name} {how}{likely}"
        todo = f"Make room on the disk of {disk.path}"
    else:
        words = f"A disk is full: {name} {how}, and says that no space is left"
        roomy = ", ".join(f"{each.what} has {_size(each.free_bytes)}" for each in facts.disks)
        known = f" Of the disks that I know, {roomy}: it is another one, or room was made since." if roomy else ""
        todo = f"Find the disk that it writes to, and make room there.{known} Once there is room"
    after = ", then restart it." if full else ", restart it."
    quoted: Phrase = (": ", Verbatim(said)) if said else ()
    return Found(Cause.DISK_FULL, (words, *quoted), (f"{todo}{after}",), (facts.command("restart"),), since)


def _how(facts: Facts) -> str:
    if facts.runs:
        silent = facts.health in (Health.STALE, Health.MISSING)
        return "runs without a heartbeat" if silent else "runs and is not well"
    return "does not run" if not facts.lives else "ended by itself"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count} bytes"


RULES: tuple[Rule, ...] = (
    _not_known,
    _not_enabled,
    _paused,
    _frozen,
    _drive_away,
    _stuck,
    _clock,
    _disk_full,
    out_of_memory,
    the_configuration,
    the_change,
    *DOWN,
    *RUNNING,
)
