"""circusd, as one of the daemons that are compared: with the settings under which it stops most."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from tests.support.peers.system import PROGRAMS, System


class Circus(System):
    """Signals go to a worker's children, too (`stop_children`), which is not its default."""

    name = "circus"
    running, stopped = "active", "stopped"

    @staticmethod
    def missing() -> str:
        return "" if (PROGRAMS / "circusd").exists() else "circus is not installed (make setup)"

    def _write(self) -> None:
        lines = [
            "[circus]",
            f"endpoint = {self._endpoint}",
            f"pubsub_endpoint = ipc://{self.folder / 'p'}",
            "statsd = False",
        ]
        for worker, command in self.setting.workers.items():
            lines += [
                f"[watcher:{worker}]",
                f"cmd = {shlex.join(command)}",
                "numprocesses = 1",
                f"graceful_timeout = {self.setting.grace_seconds}",
                "stop_children = True",
                f"[env:{worker}]",
                *(f"{name} = {value}" for name, value in self.variables(worker).items()),
            ]
        (self.folder / "c.ini").write_text("\n".join(lines) + "\n")

    @property
    def _endpoint(self) -> str:
        return f"ipc://{self.folder / 's'}"

    @property
    def program(self) -> Sequence[str]:
        return [str(PROGRAMS / "circusd"), str(self.folder / "c.ini")]

    @property
    def control(self) -> Sequence[str]:
        return [str(PROGRAMS / "circusctl"), "--endpoint", self._endpoint]

    def said(self, worker: str) -> str:
        return self.call("status", worker).stdout.strip()

    def named(self, worker: str) -> list[int]:
        return [int(pid) for pid in re.findall(r"\d+", self.call("list", worker).stdout)]

    def stop_worker(self, worker: str) -> None:
        self.call("stop", worker, "--waiting")

    def start_worker(self, worker: str) -> None:
        self.call("start", worker, "--waiting")
