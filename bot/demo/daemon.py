"""The demo's daemon: the real one, `supervisor run`, as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Mapping

from bot.demo.home import STOP_SECONDS, SUPERVISOR, WORKER, DemoError, Home
from supervisor_core.common.errors import SupervisorError
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.processes.manager import HostProcesses

LOOK_SECONDS = 0.1
END_SECONDS = STOP_SECONDS + 10.0
"""The daemon exits at once, unless it is stopping the worker."""

LAST_LINES = 15


class DemoDaemon:
    """One run of the demo's daemon."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._process: Process | None = None

    async def start(self, slack: Mapping[str, str]) -> None:
        """Start it with this Slack, in a session of its own so that it doesn't get the terminal's Ctrl-C."""
        with self._home.daemon_log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *SUPERVISOR,
                "run",
                cwd=self._home.folder,
                env=self._home.environ(slack),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The pid of the daemon, which was started."""
        assert self._process is not None  # noqa: S101 (it was started)
        return self._process.pid

    async def kill(self) -> None:
        """Kill it as a power cut would; its worker keeps running."""
        assert self._process is not None  # noqa: S101 (it was started)
        self._process.kill()
        await self._process.wait()

    async def up(self) -> None:
        """Return once its services and its worker are running."""
        while not await asyncio.to_thread(self._is_up):  # noqa: ASYNC110 (another process sets no event of ours)
            await asyncio.sleep(LOOK_SECONDS)

    async def ended(self) -> DemoError:
        """Return once it has exited, with an error that says how."""
        assert self._process is not None  # noqa: S101 (it was started)
        code = await self._process.wait()
        how = f"crashed (signal {-code})" if code < 0 else f"exited (code {code})"
        return DemoError(f"The daemon {how}. {self.last_words()}")

    def last_words(self) -> str:
        """The last lines of its log."""
        try:
            lines = self._home.daemon_log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        except OSError as error:
            return f"Its log can't be read: {error.strerror}."
        return (
            "\n".join(["The last lines of its log:", *(f"  {line}" for line in lines)])
            if lines
            else "Its log is empty."
        )

    async def end(self) -> list[str]:
        """Stop it, then its worker; returns the problems."""
        problems = []
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            except TimeoutError:
                problems.append(f"The daemon didn't stop within {END_SECONDS:g} s and was killed. {self.last_words()}")
                process.kill()
                await process.wait()
        problems += await asyncio.to_thread(self._end_another)
        problems += await asyncio.to_thread(self._end_worker)
        return problems

    def _end_another(self) -> list[str]:
        """Stop a daemon that somebody started in place of the one that they killed."""
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            try:
                ask(str(self._home.state_dir), {"do": "stop"})
            except NotRunningError:
                return []
            except (UnresponsiveError, ControlError) as error:
                return [f"Another daemon may still be running: {error}"]
            time.sleep(LOOK_SECONDS)
        return [f"Another daemon didn't stop within {END_SECONDS:g} s."]

    def _is_up(self) -> bool:
        try:
            status = ask(str(self._home.state_dir), {"do": "status"})
        except (NotRunningError, UnresponsiveError, ControlError):
            return False
        for worker in status["workers"]:
            if worker["last_error"]:
                raise DemoError(f"The worker failed to start: {worker['last_error']}")
        services = all(service["state"] in ("running", "disabled") for service in status["services"])
        return services and all(worker["state"] == "running" for worker in status["workers"])

    def _end_worker(self) -> list[str]:
        if not self._home.state_dir.is_dir():
            return []  # nothing was started
        try:
            report = HostProcesses(self._home.state_dir).stop(WORKER, timeout=STOP_SECONDS)
        except (SupervisorError, OSError) as error:
            return [f"{WORKER} may still be running: {error}"]
        return (
            [f"{WORKER} can't be stopped. Still running: {', '.join(map(str, report.survivors))}"]
            if report.survivors
            else []
        )
