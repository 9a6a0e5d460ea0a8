"""circusd, as one of the daemons that are compared: with the settings under which it stops most."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from tests.support.daemon.peers.system import PROGRAMS, System


class Circus(System):
    """Signals go to a worker's children, too (`stop_children`), which is not its default.

    Its endpoints are TCP, as by default: a second daemon would take sockets in the file system away from the first.
    """

    name = "circus"
    running, stopped = "active", "stopped"

    @staticmethod
    def missing() -> str:
        return "" if (PROGRAMS / "circusd").exists() else "circus is not installed (make setup)"

    def _write(self) -> None:
        self._endpoint, published = _free_addresses(2)
        lines = [
            "[circus]",
            f"endpoint = {self._endpoint}",
            f"pubsub_endpoint = {published}",
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


def _free_addresses(count: int) -> list[str]:
    """Different ones, of which nobody makes use at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"tcp://127.0.0.1:{each.getsockname()[1]}" for each in sockets]
