"""A home whose daemon was started in the background by the program itself, and is ended when the test is over."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

import yaml

from supervisor_core.daemon.ownership import daemon_holder
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.host.process_facts.signals import KILL, send, wait_exit
from tests.support.homes import RUN_SECONDS, Home
from tests.support.programs import warm
from tests.support.waiting import wait_until

SLEEPER = {
    "command": ["sleep", "100000"],
    "heartbeat_max_age_seconds": 0,
    "start_grace_seconds": 0.05,
    "stop_timeout_seconds": 10,
}
"""The cheapest worker there is."""


class Host(Home):
    """One host as its operator has it: a daemon, `stop` and `kill -9`."""

    def started(self) -> int:
        """A daemon that is up; its PID. That of `quick("start")` is the program from nothing."""
        self.start_daemon()
        return self.daemon()

    def quick(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command line. A daemon that it starts is the program from nothing."""
        return warm.run(words, self.folder, self.environ, RUN_SECONDS)

    def daemon(self) -> int:
        """The PID of the daemon that owns this home."""
        pid = daemon_holder(self.state_dir)
        assert pid
        return pid

    def kill_daemon(self) -> int:
        """`kill -9`; the PID that it had."""
        pid = self.daemon()
        who = identify(pid)
        assert who is not None
        os.kill(pid, signal.SIGKILL)
        assert wait_exit(who, 20)
        wait_until(lambda: daemon_holder(self.state_dir) is None, 10, "its lock is free")
        return pid

    def pids(self) -> dict[str, int | None]:
        """The workers' PIDs, as the daemon says."""
        return {worker["id"]: worker["pid"] for worker in self.status()["workers"]}

    def all_run(self) -> dict[str, int]:
        """The PIDs of all workers, once each runs."""

        def run() -> bool:
            return all(worker["state"] == "running" for worker in self.status()["workers"])

        wait_until(run, 30, "all workers run")
        return {name: pid for name, pid in self.pids().items() if pid}

    def configure(self, workers: Mapping[str, Any], **settings: Any) -> None:
        """Save the configuration with these workers, as an editor does."""
        document = yaml.safe_load(self.config.read_text())
        temporary = self.config.with_name("config.yaml.new")
        temporary.write_text(yaml.safe_dump({**document, **settings, "workers": dict(workers)}, sort_keys=False))
        self.worker_ids = tuple({*self.worker_ids, *workers})
        temporary.replace(self.config)

    def version(self) -> int:
        """Of the configuration that is in force."""
        return int(self.status()["supervisor"]["configuration"]["version"])

    def log(self) -> str:
        """All that its daemons said."""
        path = self.state_dir / "supervisor.log"
        return path.read_text() if path.exists() else ""

    def end(self) -> None:
        if self.state_dir.is_dir() and (pid := daemon_holder(self.state_dir)):
            who = identify(pid)
            if who is not None:
                send(who, KILL)
                assert wait_exit(who, 20)
        super().end()
