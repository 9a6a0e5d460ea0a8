"""Why a worker that runs is not well, where no deeper cause is known; or that it is."""

from __future__ import annotations

from datetime import datetime, timedelta

from supervisor_core.commands.phrases import Phrase, format_span
from supervisor_core.common.errors import Verbatim
from supervisor_core.common.text import times
from supervisor_core.diagnosis.why.model import Cause, Facts, Found, in_words
from supervisor_core.host.logging import excerpts as log_lines
from supervisor_core.workers.health import Health, progressed_at

LATELY = timedelta(hours=1)
"""So long a worker that is back after an end by itself is told of as such."""

ALIVE = "what it does there, a look at its log or a report (diagnostics) may say; a restart begins anew."


def unwell_since(facts: Facts) -> datetime | None:
    """Since when a running worker is not well: as the record says, else as its heartbeat and the kernel do."""
    if facts.since is not None:
        return facts.since
    seen, limit = facts.seen, timedelta(seconds=facts.seen.max_age_seconds)
    if facts.health is Health.FROZEN and seen.frozen_seconds is not None:
        return facts.at - timedelta(seconds=seen.frozen_seconds)
    if facts.health is Health.STALE and seen.heartbeat and seen.heartbeat.at:
        return seen.heartbeat.at + limit
    if facts.health is Health.MISSING and seen.started_at:
        return seen.started_at + limit
    return seen.heartbeat.at if facts.health is Health.DEGRADED and seen.heartbeat else None


def _probe(facts: Facts) -> Found | None:
    failing = facts.seen.probe_failing
    if not failing and facts.health is Health.DEGRADED and "probe" in facts.reason:  # as the daemon says, which asks it
        failing = facts.reason.removeprefix("running, but ")
    if not failing or facts.health in (Health.STALE, Health.MISSING):
        return None
    words = f"{facts.worker_id} runs and beats, but does not answer as it should: {failing}"
    todo = "Try the same by hand on the host. If what it asks is there, a restart of the worker may help."
    return Found(Cause.PROBE, (words,), (todo,), (facts.command("restart"),), unwell_since(facts))


def _no_progress(facts: Facts) -> Found | None:
    seen, name, last = facts.seen, facts.worker_id, progressed_at(facts.seen)
    said = seen.heartbeat is not None and not seen.heartbeat.error and "made no progress" in facts.reason
    if facts.health is not Health.DEGRADED or last is None or not said:
        return None
    limit = timedelta(seconds=seen.max_age_seconds)
    words: Phrase = (
        f"{name} is stuck: it beats and has work to do, and has made no progress since ",
        last,
        f"; more than {format_span(seen.max_age_seconds)} ago is too long",
    )
    todo = f"What it works on takes too long, or never ends: {ALIVE}"
    return Found(Cause.NO_PROGRESS, words, (todo,), (facts.command("restart"),), facts.since or last + limit)


def _says_so(facts: Facts) -> Found | None:
    if facts.health is not Health.DEGRADED:
        return None
    beat = facts.seen.heartbeat
    error = beat.error if beat else ""
    said: Phrase = (" that something is wrong: ", Verbatim(error)) if error else (f": {facts.reason}",)
    words: Phrase = (f"{facts.worker_id} runs, and says itself" if error else f"{facts.worker_id} runs", *said)
    todo = "That is for whoever knows the worker; a restart helps only where its cause is gone."
    return Found(Cause.SAYS_SO, words, (todo,), (facts.command("restart"),), unwell_since(facts))


def _hung(facts: Facts) -> Found | None:
    seen, name = facts.seen, facts.worker_id
    if facts.health is Health.STALE:
        last: Phrase = (
            (": its last heartbeat came at ", seen.heartbeat.at) if seen.heartbeat and seen.heartbeat.at else ()
        )
        failing = f", and {seen.probe_failing}" if seen.probe_failing else ""
        limit = f", and more than {format_span(seen.max_age_seconds)} ago is too long{failing}"
        words: Phrase = (f"{name} hangs: its process is there (pid {seen.pid}) and says nothing", *last, limit)
        return Found(
            Cause.HUNG,
            words,
            (f"It waits or turns in circles: {ALIVE}",),
            (facts.command("restart"),),
            unwell_since(facts),
        )
    if facts.health is not Health.MISSING:
        return None
    since: Phrase = (" at ", seen.started_at) if seen.started_at else ()
    words = (f"{name} runs (pid {seen.pid}), and has sent no heartbeat since it was started", *since)
    todo = (
        f"Either it hangs in its start: {ALIVE} Or it writes its heartbeat elsewhere than where it is looked for: ",
        Verbatim("nas.folders.state"),
        "; or it writes none, and then ",
        Verbatim(f"workers.{name}.heartbeat_max_age_seconds"),
        " is to be 0.",
    )
    return Found(Cause.SILENT, words, todo, (facts.command("restart"),), unwell_since(facts))


def _back(facts: Facts) -> Found | None:
    """It is well, and was not a moment ago."""
    life, begun = facts.last, facts.seen.started_at
    if life is None or not life.failed or facts.at - life.ended_at > LATELY or not facts.fine:
        return None
    if begun is not None and begun < life.started_at:
        return None
    ended = [each for each in facts.lives if each.failed and facts.at - each.ended_at <= LATELY]
    error = log_lines.last_error(facts.lines, ended[0].ended_at)
    quoted: Phrase = (", with ", Verbatim(error)) if error else ()
    since: Phrase = (" since ", begun) if begun else ()
    words: Phrase = (
        f"{facts.worker_id} runs again",
        *since,
        f", after it ended by itself {times(len(ended))} within the last hour; the last time it {in_words(life)}",
        *quoted,
    )
    todo = "Nothing, as long as it keeps running. If it goes on so, what it wrote says why."
    return Found(Cause.BACK, words, (todo,), since=begun)


def _well(facts: Facts) -> Found | None:
    if not facts.fine:
        return None
    begun = facts.seen.started_at
    since: Phrase = (" since ", begun, f", for {format_span((facts.at - begun).total_seconds())}") if begun else ()
    return Found(Cause.WELL, (f"{facts.worker_id} is well: it runs", *since, _beat(facts)), since=facts.since or begun)


def _beat(facts: Facts) -> str:
    beat = facts.seen.heartbeat
    if facts.seen.max_age_seconds == 0:
        return ", and no heartbeat is expected of it"
    if beat is None or beat.at is None:
        return ", and its first heartbeat is awaited"
    return f", and its last heartbeat came {format_span((facts.at - beat.at).total_seconds())} ago"


RUNNING = (_probe, _no_progress, _says_so, _hung, _back, _well)
