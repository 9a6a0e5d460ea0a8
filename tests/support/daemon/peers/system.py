"""A daemon with its workers, whoever's it is: written down, started, killed, asked; all of it ended afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.support.daemon.peers import marks
from tests.support.waiting import wait_until

PROGRAMS = Path(sys.executable).parent
"""Console scripts of the virtual environment, the peers' among them."""

UP_SECONDS = 30.0
CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What a daemon is to look after: the command of each worker, and how."""

    workers: Mapping[str, Sequence[str]]
    grace_seconds: float = 1.0
    """Between asking a worker to end and killing it."""
    start_grace_seconds: float = 0.1
    policy: str = "on-failure"
    """This and what follows is what ours is told; the peers' own rules are left as they come."""
    max_per_hour: int = 3
    backoff_seconds: float = 0.1


class System(ABC):
    """One daemon. Its folder should have a short name: sockets lie in it."""

    name: ClassVar[str]
    running: ClassVar[str]
    """The word for a worker that runs."""
    stopped: ClassVar[str]

    def __init__(self, folder: Path, setting: Setting) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.setting = setting
        self.mark = uuid.uuid4().hex
        self.daemons: list[subprocess.Popen[bytes]] = []
        self._write()

    @abstractmethod
    def _write(self) -> None:
        """Write the configuration."""

    @property
    @abstractmethod
    def program(self) -> Sequence[str]:
        """The daemon in the foreground."""

    @property
    @abstractmethod
    def control(self) -> Sequence[str]:
        """The program that talks to the daemon, without its subcommand."""

    @abstractmethod
    def said(self, worker: str) -> str:
        """The state of a worker, in the tool's own word; empty where the daemon does not answer."""

    @abstractmethod
    def named(self, worker: str) -> list[int]:
        """The PIDs that the tool names for a worker."""

    @abstractmethod
    def stop_worker(self, worker: str) -> None:
        """Stop one, and come back when the tool says that it is done."""

    @abstractmethod
    def start_worker(self, worker: str) -> None:
        """Start one that was stopped."""

    def noticed(self, worker: str) -> str:
        """What the tool says about a worker that could tell of its being frozen."""
        return self.said(worker)

    def variables(self, worker: str) -> dict[str, str]:
        """The environment of a worker."""
        return {marks.VARIABLE: marks.variable(self.mark, worker)}

    @property
    def environ(self) -> dict[str, str]:
        """What the programs run with: nothing of the test runner's that could change what they do."""
        return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}

    def launch(self) -> subprocess.Popen[bytes]:
        """Start a daemon, also a second one; not waited for."""
        with (self.folder / "daemon.out").open("ab") as log:
            daemon = subprocess.Popen(
                self.program, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.daemons.append(daemon)
        return daemon

    def start(self, *workers: str) -> None:
        """Start the daemon; back when it says that these workers run, and they do."""
        daemon = self.launch()

        def up() -> bool:
            assert daemon.poll() is None, f"{self.name} ended with {daemon.returncode}:\n{self.log()}"
            return all(self.said(worker) == self.running and self.living(worker) for worker in workers)

        wait_until(up, UP_SECONDS, f"{self.name} to be up with {', '.join(workers)}")

    def kill(self) -> None:
        """`kill -9` of the daemon."""
        self.daemons[-1].kill()
        self.daemons[-1].wait()

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the program that talks to the daemon, to its end."""
        return subprocess.run(
            [*self.control, *words],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
        )

    def living(self, worker: str) -> list[int]:
        """The PIDs of all that belong to a worker and are alive, descendants too, whatever the tool says."""
        return marks.living(self.mark, worker)

    def log(self) -> str:
        """What its daemons wrote, the end of it."""
        return (self.folder / "daemon.out").read_text(errors="replace")[-4000:]

    def end(self) -> None:
        """End what was started: the daemons first, so that none starts a worker anew."""
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        marks.end(self.mark)
