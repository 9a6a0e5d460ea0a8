"""Report files, on the drive or in the state folder while that is away, and the parts that they are made of."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import compact, to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.files import write_atomically
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext

FOLDER = "diagnostics"

KEPT_AT_HOME = 20
"""Reports in the state folder: a drive that is away for weeks must not fill the disk that the ledger is on."""

NEXT_SECOND = 1.05  # seconds


def report_name(kind: str, worker_id: str, moment: datetime, label: str | None, ending: str = "json") -> str:
    """`diagnostics_OrionMX_20260205T143015Z_before_the_upgrade.json`."""
    words = [kind, worker_id, compact(moment), *([label.replace(" ", "_")] if label else [])]
    return f"{'_'.join(words)}.{ending}"


def write_at_home(folder: Path, name: Callable[[], str], data: bytes) -> Path:
    """Write it to the state folder, which keeps the newest ones."""
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    path = _unused(lambda: folder / name(), Path.exists)
    write_atomically(path, data)
    older = sorted(folder.glob("[!.]*"), key=lambda each: each.stat().st_mtime_ns, reverse=True)[KEPT_AT_HOME:]
    for each in older:
        with contextlib.suppress(OSError):
            each.unlink()
    return path


def _unused(path: Callable[[], Path], exists: Callable[[Path], bool]) -> Path:
    """A name that no report has. Names tell seconds, so a second later there is another one."""
    found = path()
    if exists(found):
        time.sleep(NEXT_SECOND)
        found = path()
    return found


def masking_of(config: SupervisorConfig) -> Masking:
    """Mask the configuration's secrets. Names that are public anyway aren't secrets, though `env` may repeat them."""
    return Masking(config.secrets, public=(*config.workers, config.supervisor.id))


def keep_report(host: HostContext, job: Job, kind: str, content: Mapping[str, Any], masking: Masking) -> dict[str, str]:
    """Write the report; return its place for the details of the outcome, and why it isn't on the drive.

    Identifiers stay as they are; text from people and programs is masked.
    """
    config = host.config
    document = {
        "report": kind,
        "timestamp": to_text(host.now()),
        "supervisor_id": config.supervisor.id,
        "worker_id": job.worker_id,
        "task_id": job.task_id,
        "hostname": socket.gethostname(),
        "label": masking.text(job.label) if job.label else None,
        "audit_label": masking.text(job.audit_label),
        "asked_by": masking.text(job.issuer.id),
        **content,
    }
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    return _keep(host, f"{text}\n".encode(), partial(report_name, kind, job.worker_id, label=job.label))


def keep_output(host: HostContext, job: Job, data: bytes) -> dict[str, str]:
    """Write the output of an added command, which has no secrets any more; return its place, as for a report."""
    return _keep(host, data, partial(report_name, f"command_{job.handler}", job.worker_id, label=None, ending="txt"))


def _keep(host: HostContext, data: bytes, name: Callable[..., str]) -> dict[str, str]:
    """Write it, atomically and over no other report. Its digest is verified before the report is sent: the file on the
    drive may be swapped."""
    drive, config = host.drive, host.config
    folder, kept = config.folder("logs") / FOLDER, {"report_sha256": hashlib.sha256(data).hexdigest()}
    try:
        drive.make_folder(folder)
        path = _unused(lambda: folder / name(moment=host.now()), partial(drive.call, drive_files.exists, drive.root))
        drive.call(drive_files.write, drive.root, path, data, config.nas.file_mode)
    except (DriveUnavailable, OSError) as error:
        kept["drive"] = f"The report is in the host's state folder. {error}"
        try:
            path = write_at_home(config.state_dir / FOLDER, lambda: name(moment=host.now()), data)
        except OSError as problem:
            return {"report_problem": f"The report couldn't be written: {problem}"}
    return {"report_path": str(path), **kept}


LONGEST_ERROR = 1000  # characters

Part = Callable[[], Mapping[str, Any]]


def gather(parts: Mapping[str, Part], seconds: float, masking: Masking) -> dict[str, dict[str, Any]]:
    """Each part's content with `ok`, or its `error`, without secrets, after at most so many seconds."""
    threads = DaemonThreads("report", len(parts), idle_seconds=0)
    deadline = time.monotonic() + seconds
    under_way = {name: threads.submit(_at_the_edge, part, masking) for name, part in parts.items()}
    found = {}
    for name, future in under_way.items():
        try:
            found[name] = future.result(max(deadline - time.monotonic(), 0.0))
        except FutureTimeout:
            found[name] = failed(f"timed out after {seconds:g} s: something hangs")
    return found


def failed(error: str) -> dict[str, Any]:
    return {"ok": False, "error": error}


def _at_the_edge(part: Part, masking: Masking) -> dict[str, Any]:
    try:
        return {"ok": True, **masking.ours(part())}
    except (SupervisorError, OSError) as error:
        return failed(masking.text(str(error))[:LONGEST_ERROR])
    except Exception as error:  # noqa: BLE001 (the edge of a part: it fails alone)
        return failed(masking.text(describe(error))[:LONGEST_ERROR])


SAMPLE_SECONDS = 0.2
"""Between two looks at what a process has used of the processor."""


class Usage(NamedTuple):
    """The resources of one process; None where the system hides them."""

    memory_bytes: int | None = None
    cpu_percent: float | None = None
    """Of one processor, so that it may exceed 100."""
    started_at: datetime | None = None
    threads: int | None = None


def usage_of(identities: Iterable[ProcessIdentity], seconds: float = SAMPLE_SECONDS) -> dict[ProcessIdentity, Usage]:
    """Measure each process. One that ended meanwhile is left out, because its pid may be reused."""
    opened = {}
    for identity in identities:
        with contextlib.suppress(psutil.Error, OSError):
            opened[identity] = psutil.Process(identity.pid)
            opened[identity].cpu_percent()
    time.sleep(seconds if opened else 0.0)
    found = {}
    for identity, process in opened.items():
        usage = Usage()
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            usage = Usage(
                process.memory_info().rss,
                process.cpu_percent(),
                datetime.fromtimestamp(process.create_time(), UTC),
                process.num_threads(),
            )
        with contextlib.suppress(OSError):
            if identify(identity.pid) == identity:
                found[identity] = usage
    return found
