"""The record of a worker: which launch it is and which process, written by whoever starts it.

The record with its generation is on the disk before the process exists, and names the process after. Whoever
comes later, even after a `kill -9` in between, finds the process by one of the two and starts no second one.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.common.errors import UsageError
from supervisor_core.host.descriptors import PRIVATE_FOLDER, UnreadableFileError
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.process_facts.facts import ProcessIdentity

STARTING = "starting"
RUNNING = "running"
STUCK = "stuck"  # a stop left somebody alive; ends with the next stop that does not

STOP, TRIAL = "stop", "trial"

_WORKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}")


class StopOrder(NamedTuple):
    """An action of the supervisor on a launch, recorded before it: after a `STOP` or `TRIAL` its end is no trouble.

    A `STOP` ends it; a `TRIAL` starts it for a command that reports its end itself and puts things right.
    """

    what: str
    why: str
    until: float
    """In seconds since boot. A process that is seen alive later than that didn't end because of this."""


class WorkerRecord(NamedTuple):
    """One launch of a worker. `identity` is None until its process is known."""

    worker_id: str
    generation: str
    state: str
    started_at: str = ""
    command: tuple[str, ...] = ()
    log_path: str = ""
    spec_hash: str = ""
    identity: ProcessIdentity | None = None
    order: StopOrder | None = None
    own_log_before: int | None = None
    """The size of the log that the worker writes itself, before this launch; None if it has none or that's unknown."""

    def running_as(self, identity: ProcessIdentity) -> WorkerRecord:
        """The same launch, now with its process."""
        return self._replace(state=RUNNING, identity=identity)


def record_path(state_dir: Path, worker_id: str, ending: str = "json") -> Path:
    """The path of a worker's record; an id that could lead elsewhere is refused."""
    if not _WORKER_ID.fullmatch(worker_id):
        raise UsageError(f"{worker_id!r} isn't a worker id: up to 64 letters, digits, dots or hyphens, no dot first.")
    return state_dir / "workers" / f"{worker_id}.{ending}"


def lock_path(state_dir: Path, worker_id: str) -> Path:
    """The lock that whoever starts or stops this worker holds meanwhile."""
    return record_path(state_dir, worker_id, "lock")


def prepare_folder(state_dir: Path) -> None:
    """Make the folder of the records, readable by nobody else."""
    (state_dir / "workers").mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


@lru_cache(maxsize=1024)
def generation_prefix(state_dir: Path, worker_id: str) -> str:
    """The prefix of all generations of this worker under this state folder, which stays where it is meanwhile.

    By it a process is found whose record was lost, and never that of another installation on the same host.
    """
    from hashlib import sha256

    return sha256(f"{state_dir.resolve()}\0{worker_id}".encode()).hexdigest()[:16]


def new_generation(state_dir: Path, worker_id: str) -> str:
    """A token that no other launch has."""
    return generation_prefix(state_dir, worker_id) + os.urandom(16).hex()


def read_record(state_dir: Path, worker_id: str) -> WorkerRecord | None:
    """The record; None where there is none, `UnreadableFileError` where it says nothing that can be relied on."""
    path = record_path(state_dir, worker_id)
    document = read_json(path)
    if document is None:
        return None
    try:
        record = _read_document(document)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableFileError(f"{path} isn't a worker record: {error!r}.") from None
    if record.worker_id != worker_id or not record.generation:
        raise UnreadableFileError(f"{path} is the record of {record.worker_id!r}, not of {worker_id!r}.")
    return record


def _read_document(document: dict[str, Any]) -> WorkerRecord:
    pid, state, order = document["pid"], document["state"], document.get("order")  # an earlier version wrote no order
    if state not in {STARTING, RUNNING, STUCK} or (state == RUNNING and pid is None):
        raise ValueError(f"state {state!r}, pid {pid!r}")
    identity = None if pid is None else ProcessIdentity(int(pid), int(document["start"]), str(document["boot_id"]))
    texts = {name: str(document[name]) for name in ("worker_id", "generation", "started_at", "log_path", "spec_hash")}
    return WorkerRecord(
        **texts,
        state=state,
        command=tuple(map(str, document["command"])),
        identity=identity,
        order=StopOrder(str(order["what"]), str(order["why"]), float(order["until"])) if order else None,
        own_log_before=None if document.get("own_log_before") is None else int(document["own_log_before"]),
    )


def write_record(state_dir: Path, record: WorkerRecord) -> None:
    prepare_folder(state_dir)
    document = record._asdict()
    identity: ProcessIdentity | None = document.pop("identity")
    document |= identity._asdict() if identity else dict.fromkeys(ProcessIdentity._fields)
    document["order"] = record.order and record.order._asdict()
    write_json(record_path(state_dir, record.worker_id), document)


def forget_record(state_dir: Path, worker_id: str) -> None:
    """Remove the record of a worker of which nothing is left."""
    record_path(state_dir, worker_id).unlink(missing_ok=True)
