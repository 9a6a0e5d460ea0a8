"""A tenth of the waits between two edits and two posts, for daemons whose Slack is the local one.

Real Slack takes one edit of a message every few seconds. The local Slack takes any number, so a story with ten edits
needn't last half a minute. The waits themselves are the subject of `tests/integration/bot`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.outbound import rate_limits

VARIABLE = "SUPERVISOR_TESTS_SHORT_PACE"
ENVIRON = {VARIABLE: "1"}

SHARE = 0.1
SHORTENED = ("EDIT_OF_ONE_SECONDS", "EDIT_SECONDS", "POST_SECONDS")


def use_if_wanted(environ: Mapping[str, str]) -> None:
    """Shorten them in this program, if whoever started it wants that."""
    if VARIABLE in environ:
        for name in SHORTENED:
            setattr(rate_limits, name, getattr(rate_limits, name) * SHARE)
