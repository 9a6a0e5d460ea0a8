"""Processes of a test's own that begin with their imports done: each is forked from a server that made them once."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

PRELOADED = (
    "pytest",
    "tests.support.homes",
    "tests.support.storage.forwarded_rows",
    "supervisor_core.storage.shared_database",
)


def forked() -> ForkServerContext:
    """What makes such processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context
