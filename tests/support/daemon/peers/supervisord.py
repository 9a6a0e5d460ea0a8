"""supervisord, as one of the daemons that are compared: with the settings under which it stops most."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from tests.support.daemon.peers.system import PROGRAMS, System


class Supervisord(System):
    """Signals go to the whole group of a worker (`stopasgroup`, `killasgroup`), which is not its default."""

    name = "supervisord"
    running, stopped = "RUNNING", "STOPPED"

    def _write(self) -> None:
        lines = [
            "[unix_http_server]",
            "file=%(here)s/s",
            "[supervisord]",
            "nodaemon=true",
            "logfile=%(here)s/log",
            "pidfile=%(here)s/pid",
            "childlogdir=%(here)s",
            "minfds=64",
            "[rpcinterface:supervisor]",
            "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
            "[supervisorctl]",
            "serverurl=unix://%(here)s/s",
        ]
        for worker, command in self.setting.workers.items():
            variables = ",".join(f'{name}="{value}"' for name, value in self.variables(worker).items())
            lines += [
                f"[program:{worker}]",
                f"command={shlex.join(command).replace('%', '%%')}",
                f"environment={variables}",
                f"stopwaitsecs={self.setting.grace_seconds:.0f}",
                "stopasgroup=true",
                "killasgroup=true",
            ]
        (self.folder / "c").write_text("\n".join(lines) + "\n")

    @property
    def program(self) -> Sequence[str]:
        return [str(PROGRAMS / "supervisord"), "-c", str(self.folder / "c")]

    @property
    def control(self) -> Sequence[str]:
        return [str(PROGRAMS / "supervisorctl"), "-c", str(self.folder / "c")]

    def said(self, worker: str) -> str:
        words = self._line(worker).split()
        return words[1] if len(words) > 1 and words[0] == worker else ""

    def named(self, worker: str) -> list[int]:
        return [int(pid) for pid in re.findall(r"\bpid (\d+)", self._line(worker))]

    def stop_worker(self, worker: str) -> None:
        self.call("stop", worker)

    def start_worker(self, worker: str) -> None:
        self.call("start", worker)

    def _line(self, worker: str) -> str:
        return self.call("status", worker).stdout
