"""Workers that are on record and not in the configuration: they were removed from it while no daemon ran."""

from __future__ import annotations

import logging

from supervisor_core.adapters.processes_records import read_record
from supervisor_core.config import SupervisorConfig, Worker
from supervisor_core.domain.errors import SupervisorError

log = logging.getLogger(__name__)


def strangers(config: SupervisorConfig) -> list[Worker]:
    """One with the default settings for each, so that it can be ended like any other that is removed."""
    found = []
    for path in sorted((config.state_dir / "workers").glob("*.json")):
        if path.stem in config.workers:
            continue
        try:
            record = read_record(config.state_dir, path.stem)
        except (SupervisorError, OSError) as error:
            log.warning("%s is about no worker of this configuration, and can't be read: %s", path, error)
            continue
        if record is not None:
            worker = Worker.model_construct(command=record.command or ("unknown",))
            worker._id = path.stem  # noqa: SLF001 (a key only its parent knows, and here there is no parent)
            found.append(worker)
    return found
