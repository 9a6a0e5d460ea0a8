"""Why a worker does not run, where no deeper cause is known."""

from __future__ import annotations

from supervisor_core.commands.command import Command
from supervisor_core.commands.phrases import Phrase
from supervisor_core.common.errors import CommandText, Verbatim
from supervisor_core.common.text import times
from supervisor_core.diagnosis.why.code_causes import cleared
from supervisor_core.diagnosis.why.model import Cause, Facts, Found, began, failing, in_words, was_killed
from supervisor_core.host.logging import excerpts as log_lines
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.restarts.policy import WorkerRun

READ_IT = "What it wrote says more, and a restart tries it at once."
MENDED = "Once that is mended, a restart ends the quarantine and starts it."
FOUND = "Find who or what on the host did it. A restart ends the quarantine and starts it."


def _not_startable(facts: Facts) -> Found | None:
    if facts.runs or not facts.start_error:
        return None
    words = f"{facts.worker_id} can't be started: {facts.start_error.rstrip('.')}"
    todo = "Put that right: in the configuration it is read at once, and the start is tried again."
    return Found(Cause.NOT_STARTABLE, (words,), (todo,), (facts.command("restart"),), facts.since)


def _quarantined(facts: Facts) -> Found | None:
    if facts.runs or not facts.given_up:
        return None
    at: Phrase = (" since ", facts.given_up_at) if facts.given_up_at else ()
    words: Phrase = (f"{facts.worker_id} is quarantined", *at, _why(facts), *_error(facts))
    since = began(facts) or facts.given_up_at
    todo = FOUND if _only_killed(facts) else MENDED
    return Found(
        Cause.QUARANTINED, words, (todo,), (facts.command("restart"),), since, (*_unknown_kill(facts), *cleared(facts))
    )


def _why(facts: Facts) -> str:
    """How often it was started, and how it ended the last time."""
    starts = facts.starts
    often = f", after it was started {starts} times within an hour" if starts > 1 else ", after it was started"
    often = often if starts else ", because it could not live"
    row = failing(facts)
    if _only_killed(facts):
        return f"{often}: killed by SIGKILL {times(len(row))} ({_who_killed(row[-1])})"
    return f"{often}: it {in_words(row[-1])}" if row else often


def _only_killed(facts: Facts) -> bool:
    row = failing(facts)
    return bool(row) and all(was_killed(life) for life in row)


def _killed_by_somebody(facts: Facts) -> Found | None:
    life = facts.last
    if facts.runs or life is None or not was_killed(life) or not failing(facts):
        return None
    kills = sum(1 for each in failing(facts) if was_killed(each))
    often: Phrase = (" ", times(kills), ", the last time") if kills > 1 else ()
    words: Phrase = (
        f"{facts.worker_id} was killed by SIGKILL",
        *often,
        " at ",
        life.ended_at,
        f" ({_who_killed(life)})",
    )
    also = (*_unknown_kill(facts), *cleared(facts), *_again(facts), *_resting(facts))
    todo = f"Find who or what on the host did it. {_then(facts)}"
    return Found(Cause.KILLED, words, (todo,), (facts.command("restart"),), began(facts), also)


def _who_killed(life: WorkerRun) -> str:
    """What is known of who did it."""
    if life.memory_kills == 0:
        return "not by the supervisor, no out-of-memory kill recorded"
    return "not by the supervisor"


def _unknown_kill(facts: Facts) -> tuple[Phrase, ...]:
    """How to find out whether it was the kernel, where that isn't known here."""
    life = facts.last
    if life is None or not was_killed(life) or life.memory_kills is not None:
        return ()
    return (
        ("It isn't known here whether the kernel ran out of memory: on the host, ", Verbatim("dmesg | grep -i oom")),
    )


def _monitoring(facts: Facts) -> Found | None:
    """Where no end is known: else that is told first, and this beside it."""
    if facts.runs or not facts.resting or failing(facts):
        return None
    by: Phrase = (" by ", facts.resting_by) if facts.resting_by else ()
    since: Phrase = (" since ", facts.resting_since) if facts.resting_since else ()
    words: Phrase = (f"{facts.worker_id} does not run, and monitoring is paused", *by, *since, ": nothing is started")
    todo: Phrase = (CommandText("monitoring resume"), " has the supervisor start it; a restart starts it alone.")
    remedies = (Command("monitoring resume"), facts.command("restart"))
    return Found(Cause.MONITORING_PAUSED, words, todo, remedies, facts.since)


def _ended_well(facts: Facts) -> Found | None:
    life = facts.last
    if facts.runs or life is None or life.failed or facts.state is WorkerState.BACKING_OFF:
        return None
    words: Phrase = (f"{facts.worker_id} ended at ", life.ended_at, " by itself with exit code 0: its work was done")
    todo = f"Its restart.policy is {facts.policy or 'on-failure'}, so it rests. A restart has it begin anew."
    return Found(Cause.ENDED_WELL, words, (todo,), (facts.command("restart"),), life.ended_at)


def _died(facts: Facts) -> Found | None:
    row = failing(facts)
    if facts.runs or not row:
        return None
    life = row[-1]
    words: Phrase = (f"{facts.worker_id} {in_words(life)}, at ", life.ended_at, *_error(facts))
    also = (*cleared(facts), *_again(facts), *_resting(facts))
    cause = Cause.NOT_RESTARTED if facts.policy == "never" else Cause.DIED
    return Found(cause, words, (f"{_then(facts)}",), (facts.command("restart"),), began(facts), also)


def _then(facts: Facts) -> str:
    if facts.policy == "never":
        return f"Its restart.policy is never, so it is not started again by itself. {READ_IT}"
    return READ_IT


def _again(facts: Facts) -> tuple[Phrase, ...]:
    if facts.due_at is None:
        return ()
    often = f" It was started by itself {facts.starts} times within the last hour" if facts.starts > 1 else ""
    return (("It is started again by itself at ", facts.due_at, f".{often}" if often else ""),)


def _resting(facts: Facts) -> tuple[Phrase, ...]:
    return (("Monitoring is paused, so nothing starts it by itself",),) if facts.resting else ()


def _starting(facts: Facts) -> Found | None:
    if facts.state not in (WorkerState.STARTING, WorkerState.STOPPING):
        return None
    return Found(Cause.UNDER_WAY, (f"{facts.worker_id} is {facts.state}: this is under way",), (), since=facts.at)


def _not_running(facts: Facts) -> Found | None:
    if facts.runs:
        return None
    words = f"{facts.worker_id} does not run, and nobody saw its end"
    return Found(Cause.NOT_RUNNING, (words,), ("A restart starts it.",), (facts.command("restart"),), facts.since)


def _error(facts: Facts) -> Phrase:
    error = log_lines.last_error(facts.lines, began(facts))
    return (", with ", Verbatim(error)) if error else ()


DOWN = (
    _not_startable,
    _quarantined,
    _killed_by_somebody,
    _monitoring,
    _died,
    _starting,
    _ended_well,
    _not_running,
)
