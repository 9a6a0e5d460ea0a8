"""Starting the daemon in the background, and coming back when it is up, or with the reason why it is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.adapters.processes_identity import identify, platform
from supervisor_core.adapters.processes_signals import wait_exit
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime import runtime_file
from supervisor_core.runtime.control_client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.runtime.ownership import PASS_WAIT_SECONDS, AlreadyRunningError, daemon_holder

UP_SECONDS = PASS_WAIT_SECONDS + 60.0
"""A daemon that starts waits so long for a pass that is under way; the rest is for its services."""

LOOK_SECONDS = 0.05
"""How often it is asked whether it is up. Until it listens there is nothing that could tell."""

OUTPUT_NAME = "daemon.out"
"""What it prints before its log is open, and what Python prints when it dies; in the state folder."""

LAST_WORDS = 2000  # characters

WORKERS_SECONDS = 30.0
"""How long workers that come up are waited for; one with a longer grace period comes up all the same."""


class NotUpError(SupervisorError):
    """The daemon did not come up."""


class Started(NamedTuple):
    """A daemon that is up."""

    pid: int
    problems: list[str]
    """Services that do not run, in words; it goes on trying."""
    stale_pid: int | None
    """The daemon before it, where that died without a word."""


def start_daemon(state_dir: Path, config: Path, log_name: str = "", program: Sequence[str] = ()) -> Started:
    """Start it, and wait until all its services have run once or failed, and its workers run or do not.

    `NotUpError` with its last words, which are in the log of this name where it printed none.
    """
    holder = daemon_holder(state_dir)
    if holder is not None:
        raise AlreadyRunningError(f"supervisor already running{f' (pid {holder})' if holder else ''}")
    said = runtime_file.read(state_dir)
    stale = said.get("pid") if said.get("running") else None
    child = _spawn(state_dir, [*(program or _ourselves()), "run", "--config", str(config), "--quiet"])
    identity = identify(child.pid)
    log, began_at = state_dir / log_name, _size(state_dir / log_name)
    deadline, up_since = time.monotonic() + UP_SECONDS, None
    while time.monotonic() < deadline:
        status = _status(state_dir)
        up = status is not None and status["supervisor"]["pid"] == child.pid and _settled(status)
        up_since = (up_since or time.monotonic()) if up else None
        if status is not None and up_since and (_workers_settled(status) or _for_long(up_since)):
            return Started(child.pid, _problems(status), stale if isinstance(stale, int) else None)
        if identity is None or wait_exit(identity, LOOK_SECONDS):
            code = child.wait()
            raise NotUpError(f"The daemon ended with exit code {code}. {_last_words(state_dir, log, began_at)}")
    raise NotUpError(
        f"The daemon (pid {child.pid}) is not up after {UP_SECONDS:g} s, and goes on trying. "
        f"{_last_words(state_dir, log, began_at)}",
        remedy="`supervisor status` says how it is, `supervisor stop` ends it.",
    )


def _spawn(state_dir: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    descriptor = os.open(state_dir / OUTPUT_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        return subprocess.Popen(  # noqa: S603 (our own program, and no shell)
            list(words), stdin=subprocess.DEVNULL, stdout=output, stderr=output, **platform.launch_options()
        )


def _ourselves() -> list[str]:
    return [sys.executable, "-m", "supervisor_core.cli"]


def _status(state_dir: Path) -> dict[str, Any] | None:
    try:
        return ask(str(state_dir), {"do": "status"})
    except (NotRunningError, UnresponsiveError, ControlError):
        return None


def _settled(status: dict[str, Any]) -> bool:
    return all(service["state"] != "starting" for service in status["services"])


def _problems(status: dict[str, Any]) -> list[str]:
    bad = [service for service in status["services"] if service["state"] == "error"]
    return [f"service {service['name']}: {service['last_error'] or service['reason']}" for service in bad]


def _workers_settled(status: dict[str, Any]) -> bool:
    return all(worker["state"] != "starting" for worker in status["workers"])


def _for_long(since: float) -> bool:
    return time.monotonic() - since >= WORKERS_SECONDS


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _last_words(state_dir: Path, log: Path, began_at: int) -> str:
    """What it printed; else what it logged since it was started."""
    text = (state_dir / OUTPUT_NAME).read_text(encoding="utf-8", errors="replace").strip()
    if not text and log.is_file():
        with log.open("rb") as file:
            file.seek(began_at if _size(log) >= began_at else 0)  # else it was rotated meanwhile
            text = file.read().decode("utf-8", errors="replace").strip()
    return f"Its last words:\n{text[-LAST_WORDS:]}" if text else "It said nothing."
