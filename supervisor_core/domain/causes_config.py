"""Whether a configuration is why a worker isn't well: its trouble began when it was restarted for it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from supervisor_core.domain import log_lines
from supervisor_core.domain.causes_running import unwell_since
from supervisor_core.domain.endings import began
from supervisor_core.domain.explanation import Cause, Facts, Found, NewSettings
from supervisor_core.domain.health import Health
from supervisor_core.domain.phrases import Phrase
from supervisor_core.domain.typed import Typed

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
    said: Phrase = (": ", Typed(error)) if error else (f": {start}",) if start else ()
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
