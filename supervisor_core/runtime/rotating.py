"""The output of all workers, kept within the bounds that the configuration sets for logs."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.worker import worker_log
from supervisor_core.adapters.worker_output import rotate
from supervisor_core.config import Worker
from supervisor_core.handlers import Host

log = logging.getLogger(__name__)


def rotate_outputs(host: Host, workers: Iterable[Worker]) -> None:
    """Begin anew what has grown too large. A drive that is away, or refuses, is asked again next time."""
    limits, mode = host.config.logging, host.config.nas.file_mode
    for worker in workers:
        path = worker_log(host.config, worker)
        try:
            if host.drive.call(rotate, path, limits.max_bytes, limits.backups, mode):
                log.info("%s has grown beyond %d bytes and is begun anew", path, limits.max_bytes)
        except (DriveUnavailable, OSError) as error:
            log.warning("the output of %s can't be rotated: %s", worker.id, error)
            return
