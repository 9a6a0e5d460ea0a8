"""Starts the daemon in the background, stops it, and restarts it in place.

In place, the same process runs the program anew, so it stays the parent of its workers and learns each exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.common.errors import SupervisorError
from supervisor_core.daemon import ownership
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.ownership import AlreadyRunningError, daemon_holder
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.host.process_facts.signals import KILL, TERMINATE, launch_options, send, wait_exit

UP_SECONDS = ownership.PASS_WAIT_SECONDS + 60.0
"""A daemon that starts waits so long for a pass that is under way; the rest is for its services."""

LOOK_SECONDS = 0.05
"""Pause between two checks whether the daemon listens."""

WORKERS_SECONDS = 30.0
"""Longest wait for starting workers. A worker with a longer grace period still starts."""

REEXEC = -1
"""Instead of an exit code of the daemon: its process is to run the program anew, as the parent of its workers."""

REEXEC_ASK_SECONDS = 10.0
"""The daemon reads the configuration before it answers."""

MARGIN_SECONDS = 15.0
"""Time for the end of the program beyond the time that the daemon announces."""

TERM_SECONDS, KILL_SECONDS = 5.0, 5.0
"""The timeout for an unresponsive daemon, whose loop hangs, and for SIGKILL."""

OUTPUT_NAME = "daemon.out"
"""Its output before the log is open, and a final traceback; in the state folder."""

LAST_CHARACTERS = 2000
CHECK_STATUS = "Check `supervisor status`, or stop it with `supervisor daemon stop`."


class StartError(SupervisorError):
    """The daemon didn't start."""


class StillAliveError(SupervisorError):
    """The daemon couldn't be stopped."""


class StartedDaemon(NamedTuple):
    pid: int
    problems: list[str]
    """Describe the services that aren't running; the daemon keeps trying."""
    stale_pid: int | None
    """The daemon before it, if that crashed."""


class RestartedDaemon(NamedTuple):
    pid: int
    workers: list[str]
    """Those that ran when it was restarted."""
    problems: list[str]


class StoppedDaemon(NamedTuple):
    pid: int
    how: str
    """asked, terminated, killed"""
    answer: dict[str, Any]
    """Its answer to the request; empty without one."""


def run_command_line(config: Path, *, quiet: bool, program: Sequence[str] = ()) -> list[str]:
    """The command line of a daemon with this configuration; `program` replaces our own."""
    ourselves = program or (sys.executable, "-P", "-m", "supervisor_core.cli")
    return [*ourselves, "run", "--config", str(config), *(["--quiet"] if quiet else [])]


def start_daemon(state_dir: Path, config: Path, log_name: str = "", program: Sequence[str] = ()) -> StartedDaemon:
    """Start it, and wait until all its services have run once or failed, and its workers run or don't.

    `StartError` with its last output, or the end of the log of this name if there is none.
    """
    holder = daemon_holder(state_dir)
    if holder is not None:
        raise AlreadyRunningError(f"supervisor already running{f' (pid {holder})' if holder else ''}")
    before = ownership.read(state_dir)
    stale = before.get("pid") if before.get("running") else None
    # In the state folder: others may write to the folder of the caller.
    descriptor = os.open(state_dir / OUTPUT_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    last_output = _LastOutput(state_dir, log_name)
    with os.fdopen(descriptor, "wb") as output:
        child = subprocess.Popen(  # noqa: S603 (our own program, and no shell)
            run_command_line(config, quiet=True, program=program),
            cwd=state_dir,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            **launch_options(),
        )
    try:
        problems = _wait_until_up(state_dir, identify(child.pid), UP_SECONDS)
    except ProcessLookupError:
        raise StartError(f"The daemon exited (code {child.wait()}). {last_output}") from None
    except TimeoutError:
        message = f"The daemon (pid {child.pid}) isn't ready after {UP_SECONDS:g} s and keeps trying. {last_output}"
        raise StartError(message, remedy=CHECK_STATUS) from None
    return StartedDaemon(child.pid, problems, stale if isinstance(stale, int) else None)


def reexec_daemon(state_dir: Path, config: Path, log_name: str = "") -> RestartedDaemon | None:
    """Have the daemon run the program anew in its own process, and wait until it is up.

    None if it must be stopped and started instead: none runs, it doesn't answer, it was started by a version that can't
    do this or with another configuration file, or the system has no `exec` that keeps the process.
    `StartError` if it refuses the configuration as it reads it, or didn't come up.
    """
    last_output = _LastOutput(state_dir, log_name)
    deadline = time.monotonic() + REEXEC_ASK_SECONDS
    while True:
        try:
            answer = ask(str(state_dir), {"do": "reexec", "config": str(config)}, timeout=REEXEC_ASK_SECONDS)
            break
        except NotRunningError:  # the holder of the lock is starting, or restarts for somebody else
            if not state_dir.is_dir() or daemon_holder(state_dir) is None or time.monotonic() >= deadline:
                return None
            time.sleep(LOOK_SECONDS)
        except (UnresponsiveError, ControlError):
            return None
    if answer.get("refused"):
        raise StartError(f"The daemon wasn't restarted: {answer['refused']}")
    daemon = identify(answer["pid"]) if answer.get("pid") else None
    if daemon is None:
        return None
    seconds = float(answer["bound_seconds"]) + MARGIN_SECONDS + UP_SECONDS
    try:
        problems = _wait_until_up(state_dir, daemon, seconds, before=answer["started_at"])
    except ProcessLookupError:
        message = f"The daemon (pid {daemon.pid}) ended while it restarted. Its workers keep running. {last_output}"
        raise StartError(message, remedy="Fix the error, then run `supervisor daemon start`.") from None
    except TimeoutError:
        message = f"The daemon (pid {daemon.pid}) was restarted, but isn't ready yet and keeps trying. {last_output}"
        raise StartError(message, remedy=CHECK_STATUS) from None
    return RestartedDaemon(daemon.pid, answer["workers"], problems)


def stop_daemon(state_dir: Path, *, workers: bool = False) -> StoppedDaemon | None:
    """Stop it by a request, then SIGTERM, then SIGKILL; None if there is none. `StillAliveError` if even KILL fails."""
    deadline = time.monotonic() + ownership.LOOK_SECONDS
    while (error := ownership.daemon_lock_error(state_dir)) is not None and error.holder is None:
        if time.monotonic() >= deadline:  # a new holder writes its pid a moment later
            raise StillAliveError("Another process holds the daemon's lock; its pid is unknown.")
        time.sleep(LOOK_SECONDS)
    if error is None or error.holder is None:
        return None
    daemon = error.holder.identity
    try:
        answer = ask(str(state_dir), {"do": "stop", "workers": workers}, timeout=3.0)
    except (NotRunningError, UnresponsiveError, ControlError):
        answer = {}
    if answer and wait_exit(daemon, float(answer.get("bound_seconds", 0.0)) + MARGIN_SECONDS):
        return StoppedDaemon(daemon.pid, "asked", answer)
    for how, number, seconds in (("terminated", TERMINATE, TERM_SECONDS), ("killed", KILL, KILL_SECONDS)):
        send(daemon, number)
        if wait_exit(daemon, seconds):
            ownership.record_stop(state_dir, daemon.pid)
            return StoppedDaemon(daemon.pid, how, answer)
    raise StillAliveError(
        f"The daemon (pid {daemon.pid}) couldn't be stopped, even with SIGKILL. It still supervises this host.",
        remedy="A process that survives SIGKILL waits inside the kernel, usually for a drive. Check the drives.",
    )


def _wait_until_up(state_dir: Path, daemon: ProcessIdentity | None, seconds: float, before: str = "") -> list[str]:
    """Wait until each service runs or has failed, and each worker runs or doesn't; returns the problems.

    `before` is the start of the program that this process ran before. `ProcessLookupError` if the process ends.
    """
    deadline, up_since = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            status = ask(str(state_dir), {"do": "status"})
        except (NotRunningError, UnresponsiveError, ControlError):
            status = {}
        if status and daemon is not None:
            supervisor, services = status["supervisor"], status["services"]
            is_new = supervisor.get("pid") == daemon.pid and supervisor["started_at"] != before
            is_up = is_new and all(service["state"] != "starting" for service in services)
            up_since = (up_since or time.monotonic()) if is_up else None
            is_patient = up_since is not None and time.monotonic() - up_since < WORKERS_SECONDS
            if is_up and not (is_patient and any(worker["state"] == "starting" for worker in status["workers"])):
                bad = [service for service in services if service["state"] == "error"]
                return [f"service {service['name']}: {service['last_error'] or service['reason']}" for service in bad]
        if daemon is None or wait_exit(daemon, LOOK_SECONDS):
            raise ProcessLookupError
    raise TimeoutError


class _LastOutput:
    """The output of a daemon since this was made, else its log."""

    def __init__(self, state_dir: Path, log_name: str) -> None:
        self._sizes = {path: _size(path) for path in (state_dir / OUTPUT_NAME, state_dir / log_name)}

    def __str__(self) -> str:
        for path, size in self._sizes.items():
            if path.is_file():
                with path.open("rb") as file:
                    file.seek(size if _size(path) >= size else 0)  # else it was rotated meanwhile
                    text = file.read().decode("utf-8", errors="replace").strip()
                if text:
                    return f"Its last output:\n{text[-LAST_CHARACTERS:]}"
        return "It had no output."


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
