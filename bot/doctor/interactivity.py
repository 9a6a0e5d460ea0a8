"""The check of interactivity: whether clicks on buttons reach us. Only a click that came can prove it.

Slack tells no bot token how its app is configured; reading the manifest takes a token of the person who made the app.
"""

from __future__ import annotations

from pathlib import Path

from bot.doctor.words import SETTINGS
from supervisor_core.domain.times import to_text
from supervisor_core.ledger.ledger_file import received
from supervisor_core.runtime.doctor.checks import Check

NAME = "slack_interactivity"
KIND = "interactive"


def look(ledger: Path) -> Check:
    """Never a failure: where nobody has clicked lately, nothing is known, and it is said where to look."""
    came = received(ledger, KIND)
    if came is not None:
        first, last = (to_text(moment)[:16].replace("T", " ") for moment in came)
        since = f"since {first} UTC, and last" if first != last else "last"
        return Check(NAME, True, f"it is on: clicks have come {since} at {last} UTC")
    where = f"Look there: {SETTINGS} → Interactivity & Shortcuts must be on (manifest.yml switches it on)."
    return Check(NAME, True, "can't be seen from outside, and no click has come lately that would prove it", where)
