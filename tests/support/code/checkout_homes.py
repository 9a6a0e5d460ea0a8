"""A home whose worker runs from a checkout and says from which code it was started."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError
from tests.support.code.commits import History, straight
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed
from tests.support.waiting import wait_until

WORKER = "OrionMX"
WATCHER = """
import json, os, signal, sys
code = open(__file__).read()
place = f"started_{sys.argv[2]}.json"
with open(place + ".tmp", "w") as file:
    json.dump({"pid": os.getpid(), "code": code}, file)
os.replace(place + ".tmp", place)
signal.pause()
"""


def watcher(version: int) -> str:
    """The program of the worker, so many versions on."""
    return f"VERSION = {version}\n{WATCHER}"


HISTORY = straight(
    {"watcher.py": watcher(1), "data/old.txt": "old\n"},
    {"watcher.py": watcher(2)},
    {"watcher.py": watcher(3), "data/old.txt": None, "data/new.txt": "new\n"},
)


class CodeHome(Home):
    """One host, whose workers run from `checkout`."""

    clones: Clones

    @property
    def top(self) -> Path:
        """The checkout."""
        return self.clones.checkout.folder

    def running_copies(self, worker_id: str) -> list[int]:
        """The PIDs of this worker; a pass for it, which has the same words, is none."""
        return sorted(set(super().running_copies(worker_id)) & set(self.everybody()))

    def answers(self) -> bool:
        """Whether a daemon is there, however far it is."""
        try:
            return bool(self.status())
        except (NotRunningError, UnresponsiveError):
            return False

    def order(self, handler: str, task_id: str, params: Mapping[str, Any] | None = None, worker: str = WORKER) -> None:
        """Drop the flag of a command."""
        self.drop_flag(f"supervisor_{handler}_{worker}_{task_id}.flag", {"params": dict(params or {})})

    def came(self, handler: str, task_id: str) -> dict[str, Any]:
        """What came of it, as soon as that is told."""
        found = wait_until(lambda: self.result(handler, task_id), 30, f"{task_id} ends\n{self.daemon_log()}")
        assert found is not None
        return found

    def rows(self, task_id: str) -> list[dict[str, Any]]:
        """The audit rows of a task, besides those of siblings that it affected, read as another program would."""
        connection = sqlite3.connect(self.state_dir / "ledger.db")
        connection.row_factory = sqlite3.Row
        try:
            query = "SELECT * FROM audit_log_t WHERE task_id = ? AND action <> 'AFFECTED' ORDER BY audit_id"
            return [dict(row) for row in connection.execute(query, (task_id,))]
        finally:
            connection.close()

    def states(self, task_id: str) -> list[str]:
        """How far the jobs of a task are."""
        connection = sqlite3.connect(self.state_dir / "ledger.db")
        try:
            query = "SELECT state FROM jobs_t WHERE task_id = ? ORDER BY job_id"
            return [state for (state,) in connection.execute(query, (task_id,))]
        finally:
            connection.close()

    def started_from(self, worker: str = WORKER) -> str:
        """The code that the one running copy of the worker was started from."""
        (pid,) = wait_until(lambda: self.running_copies(worker), 10, f"{worker} runs")
        told = wait_until(lambda: self._said(worker, pid), 10, f"{worker} says what it was started from")
        assert told is not None
        return str(told["code"])

    def runs_what_is_on_disk(self, worker: str = WORKER) -> bool:
        """Whether the worker was started from the code that lies there now."""
        return self.started_from(worker) == (self.top / "watcher.py").read_text()

    def crash(self, point: str, handler: str, task_id: str, params: Mapping[str, Any] | None = None) -> None:
        """Have a daemon die of this command, at this point."""
        daemon = self.start_daemon(program=armed(point))
        self.started_from()
        self.order(handler, task_id, params)
        assert daemon.wait(30) == -signal.SIGKILL, self.daemon_log()

    def one_pass(self, *words: str, program: Sequence[str] | None = None) -> int:
        """A pass for the worker; its exit code."""
        return self.supervisor("once", "--worker-id", WORKER, *words, program=program).returncode

    def _said(self, worker: str, pid: int) -> dict[str, Any] | None:
        path = self.folder / f"started_{worker}.json"
        told = json.loads(path.read_text()) if path.exists() else {}
        return told if told.get("pid") == pid else None


def code_worker(code: Path, **settings: Any) -> dict[str, Any]:
    """The configuration of a worker that runs from this checkout."""
    return {
        "command": ["{python}", "-IS", str(code / "watcher.py"), "--worker-id", "{worker_id}"],
        "start_grace_seconds": 0.1,
        "stop_timeout_seconds": 10,
        "heartbeat_max_age_seconds": 0,
        "code": {"path": str(code)},
        **settings,
    }


@contextmanager
def a_code_home(
    folder: Path, history: History = HISTORY, workers: Sequence[str] = (WORKER,), clones: Clones | None = None
) -> Iterator[CodeHome]:
    """A home with `origin.git`, `checkout` and `colleague` beside it, and workers that run from the checkout."""
    clones = clones or origin_and_checkout(folder / "code", history)
    code = clones.checkout.folder
    with a_home(folder / "home", {name: code_worker(code) for name in workers}, CodeHome) as home:
        assert isinstance(home, CodeHome)
        home.clones = clones
        yield home
