"""The threads of the Slack service: a vote, a pause or an answer never waits for a thread behind slow work.

The event loop's default executor is used by nothing here: it has six threads on a small host, and a slow name server
holds all of them.
"""

from __future__ import annotations

from supervisor_core.common.service import Blocking

QUICK, SLOW, PREVIEWS = 16, 4, 32
"""Threads at most. A preview that finds no free one within its deadline is refused."""

quick = Blocking(QUICK, "slack-quick")
"""For the ledger, which answers in milliseconds."""

slow = Blocking(SLOW, "slack-slow")
"""For pictures, long lists and reports on the shared drive."""

previews = Blocking(PREVIEWS, "slack-preview")
"""For commands that ask a remote before anybody is asked to approve them."""
