"""A supervisor's home for a test: a folder with a configuration, real workers, and the real programs run in it.

Everything that was started is ended when the test is over, by its identity, also when the test failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.signals import KILL, send, wait_ended
from supervisor_core.processes.finding import scan_processes
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.records import generation_prefix
from supervisor_core.storage.audit import search
from tests.support.programs import warm
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0
RUN_SECONDS = 60.0
ALL_ROWS = 100_000
SUPERVISOR = (sys.executable, "-m", "supervisor_core.cli")

Daemon = subprocess.Popen[bytes] | warm.WarmProcess


def demo_command(*options: str) -> list[str]:
    """The command of a demo worker that beats often."""
    place = ["--worker-id", "{worker_id}", "--state-dir", "nas/00_STATE"]
    return ["{python}", "-m", "supervisor_core.demo.worker", *place, "--heartbeat-seconds", "0.2", *options]


class Home:
    """One host in a temporary folder."""

    def __init__(self, folder: Path, workers: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self.nas = folder / "nas"
        self.nas.mkdir(parents=True)
        self.state_dir = folder / "var"
        self.inbox = self.nas / "Worker_Inbox"
        self.outbox = self.nas / "Worker_Outbox"
        self.config = folder / "config.yaml"
        self.worker_ids = tuple(workers)
        self.more_environ: dict[str, str] = {}
        self._daemons: list[Daemon] = []
        document = {
            "supervisor": {"id": "TestHost", "state_dir": "var", "inbox_poll_seconds": 0.5},
            "nas": {"root": "nas", "layout": "cornerstone"},
            "workers": workers,
            **settings,
        }
        self.config.write_text(yaml.safe_dump(document, sort_keys=False))

    @property
    def environ(self) -> dict[str, str]:
        """What the programs run with: nothing of the test runner's that could change what they do."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        own = {"PYTHONPATH": str(ROOT), "SUPERVISOR_CONFIG": str(self.config)}
        return {**kept, **own, **self.more_environ}

    def supervisor(self, *words: str, program: Sequence[str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line to its end; with a `program`, that one, started from nothing unless it is armed."""
        if program is None:
            return warm.run(words, self.folder, self.environ, RUN_SECONDS)
        if program is not SUPERVISOR and (forked := warm.warm_words(program)):
            module, first = forked
            return warm.run([*first, *words], self.folder, self.environ, RUN_SECONDS, module)
        return subprocess.run(
            [*program, *words],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )

    def json(self, *words: str) -> Any:
        """What a command prints with `--json`."""
        done = self.supervisor(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def start_daemon(self, *, program: Sequence[str] = SUPERVISOR, wait: bool = True) -> Daemon:
        """`supervisor run` in the background; with `wait`, it is up when this returns."""
        daemon: Daemon
        with (self.folder / "daemon.log").open("ab") as log:
            if forked := warm.warm_words(program):
                module, first = forked
                daemon = warm.WarmProcess([*first, "run"], self.folder, self.environ, log, log, module)
            else:
                words, null = [*program, "run"], subprocess.DEVNULL
                daemon = subprocess.Popen(words, cwd=self.folder, env=self.environ, stdin=null, stdout=log, stderr=log)
        self._daemons.append(daemon)
        if wait:
            wait_until(lambda: self.is_up(daemon), START_SECONDS, f"the daemon came up:\n{self.daemon_log()}")
        return daemon

    @property
    def daemon_pid(self) -> int:
        """The PID of the daemon that was started last."""
        return self._daemons[-1].pid

    def wait_for_end(self) -> int:
        """Wait for the end of the daemon that was started last; how it ended."""
        return self._daemons[-1].wait(START_SECONDS)

    def kill_newest_daemon(self) -> None:
        """`kill -9` of the daemon that was started last."""
        self._daemons[-1].kill()
        self._daemons[-1].wait()

    def is_up(self, daemon: Daemon) -> bool:
        """Whether it answers and all its services run."""
        assert daemon.poll() is None, f"the daemon ended with {daemon.returncode}:\n{self.daemon_log()}"
        try:
            status = ask(str(self.state_dir), {"do": "status"})
        except (NotRunningError, UnresponsiveError):
            return False
        up = all(service["state"] in ("running", "disabled") for service in status["services"])
        return up and all(worker["state"] != "starting" for worker in status["workers"])

    def status(self) -> dict[str, Any]:
        """The live status, from the daemon."""
        return ask(str(self.state_dir), {"do": "status"})

    def worker(self, worker_id: str) -> dict[str, Any]:
        """One worker of the live status."""
        return next(worker for worker in self.status()["workers"] if worker["id"] == worker_id)

    def output(self, worker_id: str) -> Path:
        """The file that this worker's output is captured in."""
        return self.state_dir / "output" / f"{worker_id}.log"

    def daemon_log(self) -> str:
        """What the daemons of this home wrote, the end of it."""
        path = self.folder / "daemon.log"
        return path.read_text()[-4000:] if path.exists() else ""

    def drop_flag(self, name: str, body: Mapping[str, Any] | bytes | None = None) -> None:
        """Drop a flag as a careful program does: written beside, then renamed."""
        self.inbox.mkdir(exist_ok=True)
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        temporary = self.inbox / f".{name}.tmp"
        temporary.write_bytes(data)
        temporary.rename(self.inbox / name)

    def result(self, handler: str, task_id: str) -> dict[str, Any] | None:
        """A result file, or None while there is none."""
        path = self.outbox / f"supervisor_result_{handler}_{task_id}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def audit(self, task_id: str | None = None) -> list[dict[str, Any]]:
        """The audit trail, oldest first; of one task where one is named. As `supervisor audit --json` prints it."""
        with opened_ledger(load_supervisor_config(str(self.config))) as ledger:
            rows = ledger.read(lambda connection: search.search(connection, search.AuditFilter(limit=ALL_ROWS)))
        told: list[dict[str, Any]] = json.loads(json.dumps(rows))
        return [row for row in reversed(told) if task_id in (None, row["task_id"])]

    def running_copies(self, worker_id: str) -> list[int]:
        """The PIDs of all processes on this machine that are this home's worker."""
        named = self._processes_with("cmdline", b"--worker-id")
        return [pid for pid, words in named if worker_id.encode() in words.split(b"\0")]

    def everybody(self) -> list[int]:
        """The PIDs of all that a supervisor started in this home, with their descendants, whatever their names are."""
        return [pid for pid, _ in self._processes_with("environ", b"SUPERVISOR_GENERATION=")]

    def _processes_with(self, name: str, words: bytes) -> Iterator[tuple[int, bytes]]:
        """All in this folder whose file of this name has these words, with its content; few are looked at further."""
        folder = str(self.folder.resolve())
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 (pathlib takes much longer)
                content = file.read()
                if words in content and os.readlink(f"/proc/{pid}/cwd") == folder:  # noqa: PTH115 (see above)
                    yield int(pid), content

    def end(self) -> None:
        """End what was started: the daemons first, so that none starts a worker anew."""
        for daemon in self._daemons:
            if daemon.poll() is None:
                daemon.kill()
            daemon.wait()
        if not self.state_dir.exists():
            return  # nothing was ever started
        processes, table = HostProcesses(self.state_dir), scan_processes()
        members: list[ProcessIdentity] = []
        for worker_id in self.worker_ids:
            record = processes.record(worker_id)
            members += [member.identity for member in table.members(generation_prefix(self.state_dir, worker_id))]
            if record is not None:
                members += [member.identity for member in table.members(record.generation, record.identity)]
        for identity in members:
            send(identity, KILL)
        assert wait_ended(members, START_SECONDS) == ()
        while left := self.everybody():  # born meanwhile
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, KILL)


@contextmanager
def a_home(
    folder: Path,
    workers: Mapping[str, Any] | None = None,
    make: type[Home] = Home,
    **settings: Any,
) -> Iterator[Home]:
    """A home with one demo worker, `OrionMX`, unless others are given."""
    usual = {"OrionMX": {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}}
    home = make(folder, usual if workers is None else workers, settings)
    try:
        yield home
    finally:
        home.end()
