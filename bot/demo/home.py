"""The folder of a demo: a configuration, the worker's files, and its repository."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import supervisor_core
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.worker_settings import safe_environment
from supervisor_core.demo.repository import RepositoryError, make_repository


class DemoError(SupervisorError):
    """The demo can't continue."""


PREFIX = "supervisor-demo-"
WORKER = "OrionMX"
INCOMING, OUTGOING = "incoming", "outgoing"
FILES = 3  # for the worker to move when it starts, so that its log has lines
STOP_SECONDS = 10.0
COMMAND_SECONDS = 30.0
SUPERVISOR = ("-m", "supervisor_core.cli")

HEAD = """\
# The demo's configuration. Its folder is deleted when the demo stops.
# Every setting is described in docs/reference/configuration.md.
"""


@dataclass(frozen=True, slots=True)
class Rights:
    """The ids of the operators, the approvers and the alert channel."""

    operators: Sequence[str]
    approvers: Sequence[str]
    alert_channel: str


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one demo."""

    folder: Path

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "config.yaml"

    @property
    def state_dir(self) -> Path:
        """The state folder."""
        return self.folder / "var"

    @property
    def incoming(self) -> Path:
        """The folder that the worker moves files from."""
        return self.folder / INCOMING

    @property
    def checkout(self) -> Path:
        """The worker's code."""
        return self.folder / "code" / "checkout"

    @property
    def daemon_log(self) -> Path:
        """The daemon's log."""
        return self.folder / "daemon.log"

    def environ(self, slack: Mapping[str, str]) -> dict[str, str]:
        """The environment of the demo's processes, without variables that name another Slack or database."""
        root = str(Path(supervisor_core.__file__).parents[1])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        ours = {"PYTHONPATH": os.pathsep.join(paths), "SUPERVISOR_CONFIG": str(self.config)}
        return {**safe_environment(os.environ), **ours, **slack}

    def line(self, *words: str) -> str:
        """A shell command that works in any folder and environment."""
        script = Path(sys.executable).with_name("supervisor")
        variables = {"SUPERVISOR_CONFIG": str(self.config)}
        program = [str(script)]
        if not script.exists():  # not installed, but run from a checkout
            variables["PYTHONPATH"] = self.environ({})["PYTHONPATH"]
            program = [sys.executable, *SUPERVISOR]
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        return f"{settings} {shlex.join([*program, *words])}"

    async def supervisor(self, *words: str) -> str:
        """The output of a command; `DemoError` if it fails."""
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            *SUPERVISOR,
            *words,
            cwd=self.folder,
            env=self.environ({}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                out, problems = await program.communicate()
        except TimeoutError:
            raise DemoError(f"`supervisor {shlex.join(words)}` didn't finish within {COMMAND_SECONDS:g} s.") from None
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
        if program.returncode:
            said = problems.decode(errors="replace").strip()
            raise DemoError(f"`supervisor {shlex.join(words)}` failed with exit code {program.returncode}: {said}")
        return out.decode(errors="replace").rstrip("\n")


def make_folder() -> Home:
    """A new, empty folder."""
    return Home(Path(tempfile.mkdtemp(prefix=PREFIX)).resolve())


def furnish(home: Home, rights: Rights) -> None:
    """Write everything that a supervisor needs into the folder."""
    code = home.folder / "code"
    for name in (INCOMING, OUTGOING):
        (home.folder / name).mkdir()
    for number in range(1, FILES + 1):
        (home.incoming / f"spec-{number:03}.txt").write_text(f"Specification {number}\n", encoding="utf-8")
    code.mkdir()
    try:
        make_repository(code)
    except RepositoryError as error:
        raise DemoError(str(error)) from error
    write_configuration(home, rights, CODE)


def write_configuration(
    home: Home, rights: Rights, workers: Mapping[str, Any] | None = None, **sections: Mapping[str, Any]
) -> None:
    """Write the configuration with these workers. `sections` adds settings to the usual ones."""
    document = {"workers": workers or {}, **_usual(rights)}
    for name, settings in sections.items():
        document[name] = {**document.get(name, {}), **settings}
    if not workers:
        del document["teams"]
    text = yaml.safe_dump(document, sort_keys=False, width=1000)
    home.config.write_text(HEAD + text, encoding="utf-8")


def remove(home: Home) -> None:
    """Delete the folder; `OSError` if something can't be deleted."""
    if home.folder.exists():
        shutil.rmtree(home.folder)


# Relative to the checkout, in which the worker runs: a brace in the folder's name would mean something there.
PLACES = {"--state-dir": "var/state", "--incoming": INCOMING, "--outgoing": OUTGOING}
OPTIONS = [word for option, place in PLACES.items() for word in (option, f"../../{place}")]
CODE: Mapping[str, Any] = {
    WORKER: {
        "command": ["{python}", "watcher.py", "--worker-id", "{worker_id}", *OPTIONS],
        "cwd": "code/checkout",
        "team": "archive",
        "start_grace_seconds": 1,
        "stop_timeout_seconds": STOP_SECONDS,
        "heartbeat_max_age_seconds": 15,
        "restart": {"backoff_seconds": 1},
        "code": {"path": "code/checkout"},
    }
}
"""The worker, which runs code of its repository."""


def _usual(rights: Rights) -> dict[str, Any]:
    return {
        "supervisor": {"id": "demo-host", "state_dir": "var", "inbox_poll_seconds": 1},
        "teams": {"archive": {"objective": "keep the archive flowing"}},
        "slack": {
            "alert_channel": rights.alert_channel,
            "announce": True,
            "welcome": False,  # the demo has its own
            "access": {"viewers": ["*"], "operators": [*rights.operators], "approvers": [*rights.approvers]},
        },
        "metrics": {"bind": ""},  # another supervisor on this machine may have the usual port
    }
