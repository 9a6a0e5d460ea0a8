"""Where a report goes: to the drive; while that is away, to the state folder, so that it is there when it is needed."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.adapters import drive_files
from supervisor_core.adapters.drive import Drive, DriveUnavailable
from supervisor_core.adapters.files import json_text, write_atomically
from supervisor_core.domain.times import compact

FOLDER = "diagnostics"
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600

KEPT_AT_HOME = 20
"""Reports in the state folder: a drive that is away for weeks must not fill the disk that the ledger is on."""

NEXT_SECOND = 1.05  # seconds


class Written(NamedTuple):
    """Where a report is. `problem` says why it is not on the drive."""

    path: Path
    sha256: str
    """Of its content. Whoever passes the report on checks it, since anybody on the drive may have swapped the file."""
    problem: str = ""


def report_name(kind: str, worker_id: str, moment: datetime, label: str | None) -> str:
    """`diagnostics_OrionMX_20260205T143015Z_before_the_upgrade.json`."""
    words = [kind, worker_id, compact(moment), *([label.replace(" ", "_")] if label else [])]
    return f"{'_'.join(words)}.json"


def write_report(
    drive: Drive,
    logs: Path,
    state_dir: Path,
    name: Callable[[], str],
    document: Mapping[str, Any],
    mode: int,
) -> Written:
    """Write it, atomically and over no other report; `OSError` where it can't be written anywhere."""
    data = json_text(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    try:
        drive.make_folder(logs / FOLDER)
        path = _unused(lambda: logs / FOLDER / name(), partial(drive.call, drive_files.exists, drive.root))
        drive.call(drive_files.write, drive.root, path, data, mode)
    except (DriveUnavailable, OSError) as error:
        return Written(_write_at_home(state_dir / FOLDER, name, data), digest, str(error))
    return Written(path, digest)


def _write_at_home(folder: Path, name: Callable[[], str], data: bytes) -> Path:
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    path = _unused(lambda: folder / name(), Path.exists)
    write_atomically(path, data, mode=PRIVATE_FILE)
    older = sorted(folder.glob("*.json"), key=lambda each: each.stat().st_mtime_ns, reverse=True)[KEPT_AT_HOME:]
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
