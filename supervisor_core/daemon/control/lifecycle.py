"""Starts the daemon in the background and waits until it is up, or returns why it isn't.

Stops the daemon by a request, then SIGTERM, then SIGKILL, and verifies that it is gone. Restarts it in place: the same
process runs the program anew, so it stays the parent of its workers and learns each exit code.
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
from supervisor_core.daemon import ownership as runtime_file
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.ownership import DAEMON_LOCK, PASS_WAIT_SECONDS, AlreadyRunningError, daemon_holder
from supervisor_core.host.locks import FileLock, LockedError
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.host.process_facts.signals import KILL, TERMINATE, launch_options, send, wait_exit

UP_SECONDS = PASS_WAIT_SECONDS + 60.0
"""A daemon that starts waits so long for a pass that is under way; the rest is for its services."""

LOOK_SECONDS = 0.05
"""Pause between two checks whether the daemon listens."""

OUTPUT_NAME = "daemon.out"
"""Its output before the log is open, and a final traceback; in the state folder."""

LAST_WORDS = 2000  # characters

WORKERS_SECONDS = 30.0
"""Longest wait for starting workers. A worker with a longer grace period still starts."""


class StartError(SupervisorError):
    """The daemon didn't start."""


class StartedDaemon(NamedTuple):
    pid: int
    problems: list[str]
    """Describe the services that aren't running; the daemon keeps trying."""
    stale_pid: int | None
    """The daemon before it, where that died without a word."""


def start_daemon(state_dir: Path, config: Path, log_name: str = "", program: Sequence[str] = ()) -> StartedDaemon:
    """Start it, and wait until all its services have run once or failed, and its workers run or do not.

    `StartError` with its last words, which are in the log of this name where it printed none.
    """
    holder = daemon_holder(state_dir)
    if holder is not None:
        raise AlreadyRunningError(f"supervisor already running{f' (pid {holder})' if holder else ''}")
    said = runtime_file.read(state_dir)
    stale = said.get("pid") if said.get("running") else None
    log, began_at = state_dir / log_name, _size(state_dir / log_name)
    child = _spawn(state_dir, run_command_line(config, quiet=True, program=program))
    identity = identify(child.pid)
    try:
        problems = _wait_until_up(state_dir, identity, UP_SECONDS)
    except ProcessLookupError:
        raise StartError(f"The daemon exited (code {child.wait()}). {_last_words(state_dir, log, began_at)}") from None
    except TimeoutError:
        raise StartError(
            f"The daemon (pid {child.pid}) isn't ready after {UP_SECONDS:g} s and keeps trying. "
            f"{_last_words(state_dir, log, began_at)}",
            remedy="Check `supervisor status`, or stop it with `supervisor daemon stop`.",
        ) from None
    return StartedDaemon(child.pid, problems, stale if isinstance(stale, int) else None)


def _wait_until_up(state_dir: Path, daemon: ProcessIdentity | None, seconds: float, before: str = "") -> list[str]:
    """Wait until each service runs or has failed, and each worker runs or doesn't; returns the problems.

    `before` is the start of the program that this process ran before. `ProcessLookupError` if the process ends.
    """
    deadline, up_since = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        status = _status(state_dir)
        if status is not None and daemon is not None:
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


def _spawn(state_dir: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the program in the state folder: others may write to the folder of the caller."""
    descriptor = os.open(state_dir / OUTPUT_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        return subprocess.Popen(  # noqa: S603 (our own program, and no shell)
            list(words),
            cwd=state_dir,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            **launch_options(),
        )


def run_command_line(config: Path, *, quiet: bool, program: Sequence[str] = ()) -> list[str]:
    """The command line of a daemon with this configuration; `program` replaces our own."""
    ourselves = program or (sys.executable, "-P", "-m", "supervisor_core.cli")
    return [*ourselves, "run", "--config", str(config), *(["--quiet"] if quiet else [])]


REEXEC = -1
"""Instead of an exit code of the daemon: its process is to run the program anew, as the parent of its workers."""

REEXEC_ASK_SECONDS = 10.0
"""The daemon reads the configuration before it answers."""


class RestartedDaemon(NamedTuple):
    """A daemon that is up again in the same process."""

    pid: int
    workers: list[str]
    """Those that ran when it was restarted."""
    problems: list[str]


def reexec_daemon(state_dir: Path, config: Path, log_name: str = "") -> RestartedDaemon | None:
    """Have the daemon run the program anew in its own process, and wait until it is up.

    None if it must be stopped and started instead: none runs, it doesn't answer, it was started by a version that can't
    do this or with another configuration file, or the system has no `exec` that keeps the process.
    `StartError` if it refuses the configuration as it reads it, or didn't come up.
    """
    log = state_dir / log_name
    log_began_at, output_began_at = _size(log), _size(state_dir / OUTPUT_NAME)
    asked_until = time.monotonic() + REEXEC_ASK_SECONDS
    while True:
        try:
            answer = ask(str(state_dir), {"do": "reexec", "config": str(config)}, timeout=REEXEC_ASK_SECONDS)
            break
        except NotRunningError:  # where one has the lock, it is starting, or restarts for somebody else
            runs = state_dir.is_dir() and daemon_holder(state_dir) is not None
            if not runs or time.monotonic() >= asked_until:
                return None
            time.sleep(LOOK_SECONDS)
        except (UnresponsiveError, ControlError):
            return None
    if answer.get("refused"):
        raise StartError(f"The daemon wasn't restarted: {answer['refused']}")
    identity = identify(answer["pid"]) if answer.get("pid") else None
    if identity is None:
        return None
    try:
        seconds = float(answer["bound_seconds"]) + MARGIN_SECONDS + UP_SECONDS
        problems = _wait_until_up(state_dir, identity, seconds, before=answer["started_at"])
    except ProcessLookupError:
        words = _last_words(state_dir, log, log_began_at, output_began_at)
        raise StartError(
            f"The daemon (pid {identity.pid}) ended while it restarted. Its workers keep running. {words}",
            remedy="Fix the error, then run `supervisor daemon start`.",
        ) from None
    except TimeoutError:
        raise StartError(
            f"The daemon (pid {identity.pid}) was restarted, but isn't ready yet and keeps trying. "
            f"{_last_words(state_dir, log, log_began_at, output_began_at)}",
            remedy="Check `supervisor status`, or stop it with `supervisor daemon stop`.",
        ) from None
    return RestartedDaemon(identity.pid, answer["workers"], problems)


def _status(state_dir: Path) -> dict[str, Any] | None:
    try:
        return ask(str(state_dir), {"do": "status"})
    except (NotRunningError, UnresponsiveError, ControlError):
        return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _last_words(state_dir: Path, log: Path, log_began_at: int, output_began_at: int = 0) -> str:
    """Return its output, else its log since the start."""
    text = ""
    for path, began_at in ((state_dir / OUTPUT_NAME, output_began_at), (log, log_began_at)):
        if not text and path.is_file():
            with path.open("rb") as file:
                file.seek(began_at if _size(path) >= began_at else 0)  # else it was rotated meanwhile
                text = file.read().decode("utf-8", errors="replace").strip()
    return f"Its last output:\n{text[-LAST_WORDS:]}" if text else "It had no output."


MARGIN_SECONDS = 15.0
"""Time for the end of the program beyond the time that the daemon announces."""

TERM_SECONDS, KILL_SECONDS = 5.0, 5.0
"""The timeout for an unresponsive daemon, whose loop hangs, and for SIGKILL."""

SAY_SECONDS, LOOK_AGAIN_SECONDS = 1.0, 0.02
"""The time for a new holder of the daemon's lock to write its pid, or for an old one to release the lock."""


class StillAliveError(SupervisorError):
    """The daemon couldn't be stopped."""


class StoppedDaemon(NamedTuple):
    pid: int
    how: str
    """asked, terminated, killed"""
    answer: dict[str, Any]
    """Its answer to the request; empty without one."""


def stop_daemon(state_dir: Path, *, workers: bool = False) -> StoppedDaemon | None:
    """End it; None where there was none. `StillAliveError` where not even KILL did, and then nothing says otherwise."""
    daemon = _lock_holder(state_dir)
    if daemon is None:
        return None
    try:
        answer = ask(str(state_dir), {"do": "stop", "workers": workers}, timeout=3.0)
    except (NotRunningError, UnresponsiveError, ControlError):
        answer = {}
    if answer and wait_exit(daemon, float(answer.get("bound_seconds", 0.0)) + MARGIN_SECONDS):
        return StoppedDaemon(daemon.pid, "asked", answer)
    for how, number, seconds in (("terminated", TERMINATE, TERM_SECONDS), ("killed", KILL, KILL_SECONDS)):
        send(daemon, number)
        if wait_exit(daemon, seconds):
            runtime_file.record_stop(state_dir, daemon.pid)
            return StoppedDaemon(daemon.pid, how, answer)
    raise StillAliveError(
        f"The daemon (pid {daemon.pid}) couldn't be stopped, even with SIGKILL. It still supervises this host.",
        remedy="A process that survives SIGKILL waits inside the kernel, usually for a drive. Check the drives.",
    )


def _lock_holder(state_dir: Path) -> ProcessIdentity | None:
    """The daemon by the lock's file, in which a new holder writes its pid a moment later."""
    deadline = time.monotonic() + SAY_SECONDS
    while True:
        try:
            FileLock(state_dir / DAEMON_LOCK).acquire(exclusive=False).release()
        except LockedError as error:
            if error.holder is not None:
                return error.holder.identity
            if time.monotonic() >= deadline:
                raise StillAliveError("Another process holds the daemon's lock; its pid is unknown.") from None
            time.sleep(LOOK_AGAIN_SECONDS)
        else:
            return None
