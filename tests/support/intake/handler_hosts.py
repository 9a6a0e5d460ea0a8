"""A host for one handler under test: its doors are real but for the processes, of which none exists."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.handlers import HANDLERS
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.heartbeats.files import heartbeat_path
from tests.support.processes.fake_processes import FakeProcesses


class FakeHost:
    """One worker, `OrionMX`, whose processes are the fake ones; its drive can be taken away."""

    def __init__(self, folder: Path, supervisor: str = "TestHost", /, **worker: Any) -> None:
        (folder / "var").mkdir(mode=0o700)
        self.nas = folder / "nas"
        (self.nas / "00_STATE").mkdir(parents=True)
        document = {
            "supervisor": {"id": supervisor, "state_dir": "var"},
            "nas": {"root": "nas", "layout": "cornerstone"},
            "workers": {"OrionMX": {"command": ["{python}", "-V"], **worker}},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(document))
        self.processes = FakeProcesses()
        real = open_doors(load_supervisor_config(folder / "config.yaml"))
        self.host: HostContext = replace(real, processes=self.processes)

    @property
    def command(self) -> tuple[str, ...]:
        """What its worker is started with."""
        return self.host.config.command_for(self.host.config.worker("OrionMX"))

    @property
    def pid(self) -> int | None:
        """The worker, as far as it is on record."""
        found = self.processes.find("OrionMX").identity
        return found.pid if found else None

    def carry_out(self, handler: str, issuer: str = "cli:anna") -> Outcome:
        """What the handler makes of it; every outcome must be able to become JSON."""
        filed_at = datetime(2026, 2, 5, tzinfo=UTC)
        asked = Issuer(issuer, "anna")
        job = Job(1, "TestHost", "t1", "OrionMX", handler, {}, None, asked, "cli", JobState.STARTED, filed_at)
        outcome = HANDLERS[handler](self.host, job)
        json.dumps(dict(outcome.details))
        return outcome

    def start_by_hand(self) -> int:
        """Somebody starts a copy of the worker and tells nobody; its heartbeat does. Its PID."""
        identity = self.processes.start_by_hand(*self.command)
        self.beat(identity.pid)
        return identity.pid

    def beat(self, pid: int) -> None:
        """The worker's heartbeat file names this process."""
        beat = {"pid": pid, "hostname": os.uname().nodename, "status": "running", "utc": datetime.now(UTC).isoformat()}
        heartbeat_path(self.host.config.folder("state"), "OrionMX").write_text(json.dumps(beat))

    def lose_drive(self) -> None:
        """The drive is not there any more."""
        self.nas.rename(self.nas.with_name("away"))

    def runs(self, pid: int) -> bool:
        """Whether this process is still there."""
        return self.processes.identify(pid) is not None
