"""`supervisor send 'history OrionMX 7d'`: how workers were, in words; a picture of the same is for Slack."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from supervisor_core.config import load_supervisor_config
from supervisor_core.domain.command import Command
from supervisor_core.domain.history import SPANS, History, in_words
from supervisor_core.domain.phrases import plain
from supervisor_core.domain.texts import sentence, shown
from supervisor_core.domain.times import to_text
from supervisor_core.runtime.histories import histories
from supervisor_core.runtime.host import opened_ledger


def history(command: Command, config: str | None, *, as_json: bool) -> int:
    """A paragraph for each of them."""
    loaded, until = load_supervisor_config(config), datetime.now(UTC)
    since = until - SPANS[str(command.params.get("span") or "24h")]
    with opened_ledger(loaded) as ledger:
        found = histories(ledger, loaded, command.workers, since, until)
    if as_json:
        print(json.dumps([document(each) for each in found], indent=2))
        return 0
    print("\n\n".join(_paragraph(each) for each in found) or "There are no workers to look at.")
    left = len(command.workers) - len(found)
    if left > 0:
        print(f"\n{left} more are not shown: name them to see each.")
    return 0


def _paragraph(told: History) -> str:
    first, *rest = (shown(sentence(plain(phrase))) for phrase in in_words(told))
    return "\n".join([first, *(f"- {line}" for line in rest)])


def document(told: History) -> dict[str, Any]:
    """For programs: what is known, without the words."""
    up = told.uptime
    return {
        "worker_id": told.worker_id,
        "since": to_text(told.since),
        "until": to_text(told.until),
        "uptime": up.share,
        "seconds": {
            "well": up.well.total_seconds(),
            "unwell": up.unwell.total_seconds(),
            "down": up.down.total_seconds(),
            "uncounted": up.uncounted.total_seconds(),
        },
        "changes": told.changes,
        "stretches": [
            {
                "condition": str(each.condition),
                "since": to_text(each.since),
                "until": to_text(each.until),
                "reason": each.reason,
            }
            for each in told.stretches
        ],
        "heartbeat_limit_seconds": told.limit_seconds,
        "heartbeat_ages": [{"at": to_text(each.at), "seconds": each.seconds} for each in told.samples],
        "commands": [{"at": to_text(each.at), "command": each.name, "words": plain(each.words)} for each in told.marks],
    }
