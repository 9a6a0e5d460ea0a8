"""The locks of a checkout, for all processes of this host, so that no worker starts on half-changed code.

A code change holds the checkout lock exclusively; starting or stopping one of its workers shares it. Code changes also
hold a turn lock, one after the other: a change releases the checkout while it asks the remote, but keeps the turn. So a
change on record whose turn nobody holds was interrupted by a crash.

Each execution takes the turn, then the checkout, then the locks of Python environments in the order of their names.
This order rules out deadlocks.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from supervisor_core.code.git import top_of
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.definitions import Tier
from supervisor_core.common.errors import RefusedError
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.locks import LOOK_AGAIN_SECONDS, FileLock, LockedError
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext

CHECKOUT, TURN = "code", "change"
"""The prefixes of the two lock files."""

log = logging.getLogger(__name__)


@contextmanager
def checkout_for(job: Job, host: HostContext, should_stop: Callable[[], object]) -> Iterator[HostContext | None]:
    """Lock the checkout as this job needs it, for as long as the host is used; None if this program must stop first."""
    definition = by_handler(job.handler)
    tier = definition.tier if definition else Tier.REPORT
    if tier > Tier.LIFECYCLE:
        yield host
        return
    top, purpose = _top(host, host.config.worker(job.worker_id)), f"{job.command} of {job.worker_id}"
    with ExitStack() as locks:
        for kind in (TURN, CHECKOUT) if tier is Tier.CODE else (CHECKOUT,):
            lock = _lock(host, top, purpose, kind)
            if not _acquire(lock, exclusive=tier is Tier.CODE, should_stop=should_stop):
                yield None
                return
            locks.enter_context(lock)

        @contextmanager
        def unlocked() -> Iterator[None]:
            """Release the checkout for a while, and keep the turn."""
            lock.release()
            yield
            if not _acquire(lock, exclusive=True, should_stop=should_stop):
                raise RefusedError("The supervisor is stopping. Nothing was changed.", remedy="Send the command again.")

        yield replace(host, unlocked=unlocked) if tier is Tier.CODE else host


@contextmanager
def checkout_shared(
    host: HostContext, worker: WorkerSettings, *, wait: bool, should_stop: Callable[[], object] = lambda: False
) -> Iterator[bool]:
    """Share the checkout with other starts and stops. False if a code change holds it and `wait` is off, or if this
    program must stop first."""
    lock = _lock(host, _top(host, worker), "", CHECKOUT)
    if not _acquire(lock, exclusive=False, should_stop=lambda: not wait or should_stop()):
        yield False
        return
    with lock:
        yield True


def share_checkout(host: HostContext, one: WorkerSettings, other: WorkerSettings) -> bool:
    """True if both workers run from the same checkout."""
    return _top(host, one) == _top(host, other)


def _acquire(lock: FileLock, *, exclusive: bool, should_stop: Callable[[], object]) -> bool:
    logged = False
    while True:
        try:
            lock.acquire(exclusive=exclusive)
        except LockedError as error:
            if should_stop():
                return False
            if not logged:
                log.info("waiting for %s", error.holder or "another command on the same checkout")
            logged = True
        else:
            return True
        time.sleep(LOOK_AGAIN_SECONDS)


def _lock(host: HostContext, top: Path, purpose: str, kind: str) -> FileLock:
    locks = host.config.state_dir / "locks"
    locks.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    key = hashlib.sha256(os.fsencode(top)).hexdigest()[:16]
    return FileLock(locks / f"{kind}_{key}.lock", purpose)


def _top(host: HostContext, worker: WorkerSettings) -> Path:
    """The top folder of the checkout, which may be on the drive; the configured folder if that hangs."""
    try:
        return host.drive.call(top_of, worker.code.path)
    except (DriveUnavailable, OSError):
        return worker.code.path
