"""A host of the demo: a folder with a configuration and a worker's code, and a daemon in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import subprocess
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.worker_settings import safe_environment
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.demo.repository import make_repository
from supervisor_core.processes.manager import HostProcesses

WORKER = "OrionMX"
LOOK_SECONDS = 0.1
STOP_SECONDS = 10.0
END_SECONDS = 2 * STOP_SECONDS  # a daemon may be stopping its worker
COMMAND_SECONDS = 30.0
LAST_LINES = 15
SUPERVISOR = ("-m", "supervisor_core.cli")

# Relative to the checkout, in which the worker runs: a brace in the folder's name would mean something there.
PATHS = ["--state-dir", "../../var/state", "--incoming", "../../incoming", "--outgoing", "../../outgoing"]
WORKER_SETTINGS: Mapping[str, Any] = {
    "command": ["{python}", "watcher.py", "--worker-id", "{worker_id}", *PATHS],
    "cwd": "code/checkout",
    "team": "archive",
    "start_grace_seconds": 1,
    "stop_timeout_seconds": STOP_SECONDS,
    "heartbeat_max_age_seconds": 15,
    "restart": {"backoff_seconds": 1},
    "code": {"path": "code/checkout"},
}


class DemoError(SupervisorError):
    """The demo can't continue."""


class DemoHost:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config.yaml"
        self.state_dir = folder / "var"
        self.incoming = folder / "incoming"
        self.checkout = folder / "code" / "checkout"
        self._log = folder / "daemon.log"
        self._process: Process | None = None

    def furnish(self) -> None:
        """Write the worker's files and its repository."""
        for name in ("incoming", "outgoing", "code"):
            (self.folder / name).mkdir()
        for number in (1, 2, 3):  # for the worker to move when it starts, so that its log has lines
            (self.incoming / f"spec-{number:03}.txt").write_text(f"Specification {number}\n", encoding="utf-8")
        try:
            make_repository(self.folder / "code")
        except FileNotFoundError:
            raise DemoError("git isn't on the PATH. Install git and try again.") from None
        except subprocess.SubprocessError as error:
            output = getattr(error, "stderr", b"").decode(errors="replace")
            raise DemoError(f"The repository can't be created: {error}\n{output}") from error

    def configure(self, document: Mapping[str, Any]) -> None:
        text = yaml.safe_dump({**document, "metrics": {"bind": ""}}, sort_keys=False, width=1000)
        self.config.write_text(text, encoding="utf-8")

    def environ(self, slack: Mapping[str, str]) -> dict[str, str]:
        """The environment of the demo's processes, without variables that name another Slack or database."""
        return {**safe_environment(os.environ), "SUPERVISOR_CONFIG": str(self.config), **slack}

    def line(self, *words: str) -> str:
        """A shell command that works in any folder and environment."""
        program = Path(sys.executable).with_name("supervisor")
        return f"SUPERVISOR_CONFIG={shlex.quote(str(self.config))} {shlex.join([str(program), *words])}"

    async def supervisor(self, *words: str) -> str:
        """The output of a command; `DemoError` if it fails."""
        program = [sys.executable, *SUPERVISOR, *words]
        process = await asyncio.create_subprocess_exec(*program, env=self.environ({}), stdout=PIPE, stderr=PIPE)
        async with asyncio.timeout(COMMAND_SECONDS):
            output, errors = await process.communicate()
        if process.returncode:
            raise DemoError(f"`supervisor {shlex.join(words)}` failed: {errors.decode(errors='replace')}")
        return output.decode(errors="replace").rstrip("\n")

    async def start(self, slack: Mapping[str, str]) -> None:
        """Start the daemon with this Slack, in a session of its own so that it doesn't get the terminal's Ctrl-C."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *SUPERVISOR, "run"),
                cwd=self.folder,
                env=self.environ(slack),
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def process(self) -> Process:
        """The daemon's process, which was started."""
        assert self._process is not None  # noqa: S101 (it was started)
        return self._process

    async def kill(self) -> None:
        """Kill the daemon as a power cut would; its worker keeps running."""
        self.process.kill()
        await self.process.wait()

    async def status(self) -> dict[str, Any]:
        """The daemon's own report; empty while it doesn't answer."""
        try:
            return await asyncio.to_thread(ask, str(self.state_dir), {"do": "status"})
        except (NotRunningError, UnresponsiveError, ControlError):
            return {}

    async def up(self) -> None:
        """Return once its services and workers are running."""
        while True:
            status = await self.status()
            for worker in status.get("workers", ()):
                if worker["last_error"]:
                    raise DemoError(f"The worker failed to start: {worker['last_error']}")
            services = [service["state"] in ("running", "disabled") for service in status.get("services", [])]
            if services and all(services) and all(worker["state"] == "running" for worker in status["workers"]):
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def ended(self) -> DemoError:
        """Return once the daemon has exited, with an error that says how."""
        code = await self.process.wait()
        how = f"crashed (signal {-code})" if code < 0 else f"exited (code {code})"
        return DemoError(f"The daemon {how}. {self.last_lines()}")

    def last_lines(self) -> str:
        """The last lines of the daemon's log."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join(["The last lines of its log:", *(f"  {line}" for line in lines)])

    async def end(self, problems: list[str]) -> None:
        """Stop the daemon, then its worker. What doesn't stop is added to the problems."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            except TimeoutError:
                problems.append(f"The daemon didn't stop within {END_SECONDS:g} s and was killed. {self.last_lines()}")
                await self.kill()
        problems += await asyncio.to_thread(self._end_others)

    def _end_others(self) -> list[str]:
        """Stop a daemon that somebody started in place of the one that they killed, then the worker."""
        deadline = time.monotonic() + END_SECONDS
        try:
            while time.monotonic() < deadline:
                ask(str(self.state_dir), {"do": "stop"})
                time.sleep(LOOK_SECONDS)
        except NotRunningError:
            pass
        except (UnresponsiveError, ControlError) as error:
            return [f"Another daemon may still be running: {error}"]
        if not self.state_dir.exists():
            return []  # nothing was ever started
        try:
            report = HostProcesses(self.state_dir).stop(WORKER, timeout=STOP_SECONDS)
        except (SupervisorError, OSError) as error:
            return [f"{WORKER} may still be running: {error}"]
        return [f"{WORKER} can't be stopped: {', '.join(map(str, report.survivors))}"] if report.survivors else []
