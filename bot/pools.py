"""The threads of the Slack service: a vote, a pause or an answer never waits for a thread behind slow work.

The event loop's default executor is used by nothing here: it has six threads on a small host, and a slow name server
holds all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from supervisor_core.code.planning import PREVIEW_SECONDS
from supervisor_core.common.errors import TemporaryError
from supervisor_core.common.service import Blocking

T = TypeVar("T")

QUICK, SLOW, PREVIEWS = 16, 4, 32
"""Threads at most. A preview that finds no free one within its deadline is refused."""

quick = Blocking(QUICK, "slack-quick")
"""For the ledger, which answers in milliseconds."""

slow = Blocking(SLOW, "slack-slow")
"""For long lists and reports on the shared drive."""

previews = Blocking(PREVIEWS, "slack-preview")
"""For commands that ask a remote before anybody is asked to approve them."""


async def preview_in_time(work: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 (whatever `work` takes)
    """Run it among the previews; `TemporaryError` if no thread is free within a preview's time."""
    deadline = time.monotonic() + PREVIEW_SECONDS

    def run() -> T:
        if time.monotonic() >= deadline:
            raise TemporaryError("Too many other previews are running, so nothing was done.", remedy="Try again.")
        return work(*arguments)

    return await previews(run)
