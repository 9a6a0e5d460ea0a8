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


class NotUpError(SupervisorError):
    """The daemon did not come up."""


class Started(NamedTuple):
    """A daemon that is up."""

    pid: int
    problems: list[str]
    """Services that do not run, in words; it goes on trying."""
    stale_pid: int | None
    """The daemon before it, where that died without a word."""


def start_daemon(state_dir: Path, config: Path, program: Sequence[str] = ()) -> Started:
    """Start it, and wait until its services and workers have come up or failed; `NotUpError` with its last words."""
    holder = daemon_holder(state_dir)
    if holder is not None:
        raise AlreadyRunningError(f"supervisor already running{f' (pid {holder})' if holder else ''}")
    said = runtime_file.read(state_dir)
    stale = said.get("pid") if said.get("running") else None
    child = _spawn(state_dir, [*(program or _ourselves()), "run", "--config", str(config), "--quiet"])
    identity = identify(child.pid)
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        status = _status(state_dir)
        if status is not None and status["supervisor"]["pid"] == child.pid and _settled(status):
            return Started(child.pid, _problems(status), stale if isinstance(stale, int) else None)
        if identity is None or wait_exit(identity, LOOK_SECONDS):
            code = child.wait()
            raise NotUpError(f"The daemon ended with exit code {code}. {_last_words(state_dir)}")
    raise NotUpError(
        f"The daemon (pid {child.pid}) is not up after {UP_SECONDS:g} s, and goes on trying. {_last_words(state_dir)}",
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
    return all(each["state"] != "starting" for each in (*status["services"], *status["workers"]))


def _problems(status: dict[str, Any]) -> list[str]:
    bad = [service for service in status["services"] if service["state"] == "error"]
    return [f"service {service['name']}: {service['last_error'] or service['reason']}" for service in bad]


def _last_words(state_dir: Path) -> str:
    text = (state_dir / OUTPUT_NAME).read_text(encoding="utf-8", errors="replace").strip()
    return f"Its last words:\n{text[-LAST_WORDS:]}" if text else "It said nothing; its log may say more."
