"""A host for commands on code, in this process: git, files and ledger are real, the workers' processes are not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.code.change_plan import CodePlan, preview_text
from supervisor_core.code.git import Git
from supervisor_core.code.planning import preview
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.execution import execute
from supervisor_core.jobs import results
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.handler_checks import check_startable
from supervisor_core.jobs.rows import NewJob
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.worker import start_watcher
from tests.support.processes.fake_processes import FakeProcesses

WORKER = "OrionMX"
ANNA = Issuer("cli:anna", "anna")
COMMANDS = {"update_code": "update", "rollback_code": "rollback", "undo_code": "undo"}


class CodePlace:
    """One host whose workers run from a checkout."""

    def __init__(self, folder: Path, host: HostContext, ledger: Ledger, processes: FakeProcesses) -> None:
        self.folder = folder
        self.host = host
        self.ledger = ledger
        self.processes = processes
        self.git = Git(host.config.worker(WORKER).code.path)

    def pid(self, worker_id: str = WORKER) -> int | None:
        """The worker's process."""
        found = self.processes.find(worker_id).identity
        return found.pid if found else None

    def carry_out(
        self, handler: str, params: Mapping[str, Any] | None = None, task_id: str = "t1", worker_id: str = WORKER
    ) -> Outcome:
        """File this command and carry it out, as a pass does; its result file is written as well."""
        now = datetime.now(UTC)
        new = NewJob(task_id, worker_id, handler, dict(params or {}), None, ANNA, "cli", now)
        supervisor = self.host.config.supervisor.id
        job = self.ledger.write(lambda connection: jobs.file(connection, supervisor, new, now))
        assert job is not None
        outcome = execute(job, self.host, self.ledger)
        assert outcome is not None
        while results.deliver(self.host, self.ledger):
            pass
        return outcome

    def preview(self, handler: str, params: Mapping[str, Any] | None = None) -> CodePlan:
        """What it would do."""
        command = Command(COMMANDS[handler], workers=(WORKER,), params=params or {})
        (seen,) = preview(self.host, command)
        return seen

    def all_told(self, *previews: CodePlan) -> bytes:
        """All that anybody can read of what was done: the ledger with its audit trail, result files, these previews."""
        files = [path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and path.name != "config.yaml"]
        now = datetime.now(UTC)
        seen = [json.dumps(each.as_json()) + "\n".join(preview_text(each, now)) for each in previews]
        return b"\n".join([*files, *(text.encode() for text in seen)])


@contextmanager
def a_code_place(
    folder: Path,
    checkout: Path,
    *,
    code: Mapping[str, Any] | None = None,
    workers: Sequence[str] = (WORKER,),
    checkouts: Mapping[str, Path] | None = None,
) -> Iterator[CodePlace]:
    """A host in this folder; its workers run when this begins. `checkouts`: of workers that have one of their own."""
    (folder / "nas" / "00_STATE").mkdir(parents=True)
    (folder / "nas" / "Worker_Outbox").mkdir()
    each: dict[str, Any] = {"command": ["{python}", "-V"], "code": dict(code or {})}
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {
            name: {**each, "code": {**each["code"], "path": str((checkouts or {}).get(name, checkout))}}
            for name in workers
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    config = load_supervisor_config(folder / "config.yaml")
    processes = FakeProcesses()
    with opened_ledger(config) as ledger:
        host = replace(open_doors(config), processes=processes, ledger=ledger)
        for worker_id in workers:
            check_startable(host, config.worker(worker_id))
            start_watcher(processes, host.drive, config, config.worker(worker_id))
        yield CodePlace(folder, host, ledger, processes)


def done(place: CodePlace, handler: str, task_id: str, /, **params: object) -> None:
    """It goes through, as its preview says."""
    seen = place.preview(handler, params)
    assert seen.ok, (seen.refused, seen.conflict)
    outcome = place.carry_out(handler, params, task_id)
    assert outcome.success, outcome.error
    assert outcome.details["before"] != outcome.details["after"]
    assert place.pid()


def failed(place: CodePlace, handler: str, task_id: str = "t1", /, **params: object) -> str:
    """It fails; the worker runs all the same."""
    outcome = place.carry_out(handler, params, task_id)
    assert not outcome.success
    assert place.pid()
    assert outcome.error is not None
    return outcome.error
