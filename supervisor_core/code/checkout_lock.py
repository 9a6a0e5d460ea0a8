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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from supervisor_core.code.git.history import top_of
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.definitions import Tier
from supervisor_core.common.errors import RefusedError
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.locks import LOOK_AGAIN_SECONDS, FileLock, LockedError
from supervisor_core.jobs.model import Job
from supervisor_core.processes.together import Ended, SharedNeed, Steps, stepwise
from supervisor_core.workers.context import HostContext

CHECKOUT, TURN = "code", "change"
"""The prefixes of the two lock files."""

log = logging.getLogger(__name__)


@stepwise
def checkout_for(
    job: Job, host: HostContext, should_stop: Callable[[], object]
) -> Steps[AbstractContextManager[HostContext | None]]:
    """Lock the checkout as this job needs it, for as long as the host is used; None if this program must stop first."""
    definition = by_handler(job.handler)
    tier = definition.tier if definition else Tier.REPORT
    if tier > Tier.LIFECYCLE:
        return nullcontext(host)
    worker, purpose = host.config.worker(job.worker_id), f"{job.command} of {job.worker_id}"
    changes = tier is Tier.CODE
    kinds = (TURN, CHECKOUT) if changes else (CHECKOUT,)
    with ExitStack() as held:
        top: Path = yield _Top(host.drive, worker.code.path)
        for kind in kinds:
            lock = _lock(host, top, purpose, kind)
            if not (yield from _take(lock, exclusive=changes, should_stop=should_stop)):
                return nullcontext(None)
            held.enter_context(lock)
        ours = replace(host, unlocked=partial(_unlocked, lock, should_stop)) if changes else host
        return _held(held.pop_all(), ours)


@contextmanager
def _held(locks: ExitStack, host: HostContext) -> Iterator[HostContext]:
    with locks:
        yield host


@contextmanager
def _unlocked(lock: FileLock, should_stop: Callable[[], object]) -> Iterator[None]:
    """Release the checkout for a while."""
    lock.release()
    yield
    if not _taken(lock, exclusive=True, should_stop=should_stop):
        raise RefusedError("The supervisor is stopping. Nothing was changed.", remedy="Send the command again.")


@contextmanager
def checkout_shared(
    host: HostContext, worker: WorkerSettings, *, wait: bool, should_stop: Callable[[], object] = lambda: False
) -> Iterator[bool]:
    """Share the checkout with other starts and stops. False if a code change holds it and `wait` is off, or if this
    program must stop first."""
    with shared_lock(host, worker, lambda: not wait or should_stop()) as taken:
        yield taken


@stepwise
def shared_lock(
    host: HostContext, worker: WorkerSettings, should_stop: Callable[[], object]
) -> Steps[AbstractContextManager[bool]]:
    """`checkout_shared`, for several at the same time."""
    top: Path = yield _Top(host.drive, worker.code.path)
    lock = _lock(host, top, "")
    taken = yield from _take(lock, exclusive=False, should_stop=should_stop)
    return _holding(lock) if taken else nullcontext(False)


@contextmanager
def _holding(lock: FileLock) -> Iterator[bool]:
    with lock:
        yield True


def share_checkout(host: HostContext, one: WorkerSettings, other: WorkerSettings) -> bool:
    """True if both workers run from the same checkout."""
    return _top(host, one) == _top(host, other)


def _take(lock: FileLock, *, exclusive: bool, should_stop: Callable[[], object]) -> Steps[bool]:
    said = False
    while True:
        try:
            lock.acquire(exclusive=exclusive)
        except LockedError as error:
            if should_stop():
                return False
            if not said:
                log.info("waiting for %s", error.holder or "another command on the same checkout")
            said = True
        else:
            return True
        yield Ended((), LOOK_AGAIN_SECONDS)


_taken = stepwise(_take)


def _lock(host: HostContext, top: Path, purpose: str, kind: str = CHECKOUT) -> FileLock:
    locks = host.config.state_dir / "locks"
    locks.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    key = hashlib.sha256(os.fsencode(top)).hexdigest()[:16]
    return FileLock(locks / f"{kind}_{key}.lock", purpose)


def _top(host: HostContext, worker: WorkerSettings) -> Path:
    (top,) = _Top.answer([_Top(host.drive, worker.code.path)])
    return top


@dataclass(frozen=True, slots=True)
class _Top(SharedNeed):
    """The top folder of the checkout of a folder, which may be on the drive; the folder itself if that hangs."""

    drive: Drive
    folder: Path

    @classmethod
    def answer(cls, needs: Sequence[_Top]) -> Sequence[Path]:
        """Ask the drive once for all."""
        folders = list(dict.fromkeys(need.folder for need in needs))
        try:
            tops = dict(zip(folders, needs[0].drive.call(_tops_of, folders), strict=True))
        except (DriveUnavailable, OSError):
            tops = {}
        return [tops.get(need.folder, need.folder) for need in needs]


def _tops_of(folders: Sequence[Path]) -> list[Path]:
    return [top_of(folder) for folder in folders]
