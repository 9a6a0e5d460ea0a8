"""The scenes of docs/tutorial/roll-back.md: a host with a worker and its code, and each command typed for real."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import yaml

from supervisor_core.demo.repository import BRANCH, git_environment, make_repository
from tests.support.code.venvs import Venv, a_venv, make_wheel
from tests.support.diagnosis.terminal import Terminal
from tests.support.homes import Home, a_home

SHOWN_AS = "/srv/orion"
WORKER = "OrionMX"
PROGRAM = """\
#!/bin/sh
exec {python} -m supervisor_core.cli "$@"
"""
COLLEAGUES = {"Ann Archer": "ann@example.org", "Ben Brook": "ben@example.org"}
ROLES = ("AUTHOR", "COMMITTER")
FOLDERS = ("00_STATE", "01_RAW", "04_PUBLISH")


def scenes() -> Iterator[tuple[str, str]]:
    """The name of each picture and its page, in the order of the tutorial."""
    with tempfile.TemporaryDirectory(prefix="orion-") as made:
        folder = Path(made).resolve() / "orion"
        venv = a_venv(folder / "venv")
        with a_home(folder, _workers(venv), supervisor={"id": "orion1", "state_dir": "var"}) as home:
            _furnish(home, venv)
            home.start_daemon()
            yield from _play(home)


def _play(home: Home) -> Iterator[tuple[str, str]]:
    terminal = Terminal(home.folder, SHOWN_AS, _environ(home))
    terminal.type("supervisor rollback 2 slow since noon --preview")
    yield "terminal_preview.png", terminal.page()

    terminal.type("supervisor rollback 2 slow since noon")
    yield "terminal_rollback.png", terminal.page()

    terminal.type("git -C checkout log --oneline -5")
    terminal.type("git -C checkout log -1")
    yield "terminal_commits.png", terminal.page()

    terminal.type("supervisor rollback 1 --preview")
    yield "terminal_rollback_of_rollback.png", terminal.page()

    terminal.type("supervisor undo it was the drive")
    terminal.type("git -C checkout log --oneline -4")
    terminal.type("git -C checkout diff --stat origin/main")
    yield "terminal_undo.png", terminal.page()

    terminal.type("supervisor rollback 1 slow again")
    _commit(home, "Ann Archer", "Beat every two seconds", "watcher.py", "_SECONDS = 1.0", "_SECONDS = 2.0")
    terminal.page()
    terminal.type("supervisor update --preview")
    yield "terminal_update_preview.png", terminal.page()

    terminal.type("supervisor update")
    terminal.type("git -C checkout log --oneline --graph -7")
    yield "terminal_update.png", terminal.page()

    terminal.type("supervisor update --reset drive is repaired --preview")
    terminal.type("supervisor update --reset drive is repaired")
    terminal.type("git -C checkout for-each-ref --format='%(objectname:short) %(refname)' refs/supervisor")
    yield "terminal_reset.png", terminal.page()

    _commit(home, "Ben Brook", "Filter with orion-filters", "requirements.txt", "\n", "\norion_filters==2.0\n")
    terminal.type("supervisor update-deps", exit_code=1)
    terminal.type("git -C checkout status --short --branch")
    yield "terminal_update_deps.png", terminal.page()

    said = terminal.type("supervisor rollback 1 --preview")
    state = said.rsplit(maxsplit=1)[-1]
    terminal.type("supervisor pause the disk is full")
    terminal.type(f"supervisor rollback 1 --if-state {state}", exit_code=1)
    yield "terminal_if_state.png", terminal.page()


def _workers(venv: Venv) -> dict[str, object]:
    places = {"--state-dir": "00_STATE", "--incoming": "01_RAW", "--outgoing": "04_PUBLISH"}
    options = [word for option, name in places.items() for word in (option, f"../nas/{name}")]
    worker = {
        "python": venv.python,
        "command": ["{python}", "watcher.py", "--worker-id", "{worker_id}", *options],
        "cwd": "checkout",
        "start_grace_seconds": 1,
        "code": {"path": "checkout", "pip_args": ["--no-index", "--find-links", "../wheels"]},
    }
    return {WORKER: worker}


def _furnish(home: Home, venv: Venv) -> None:
    """What the configuration speaks of: the drive's folders, the code, and the packages that it needs so far."""
    for name in FOLDERS:
        (home.nas / name).mkdir()
    make_repository(home.folder)
    for part in ("yaml", "_yaml", f"PyYAML-{yaml.__version__}.dist-info", f"pyyaml-{yaml.__version__}.dist-info"):
        place = Path(str(distribution("PyYAML").locate_file(part)))
        if place.exists():
            shutil.copytree(place, venv.site / part)
    make_wheel(home.folder / "wheels", "orion_filters", "1.0")
    program = home.folder / "bin" / "supervisor"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)


def _environ(home: Home) -> dict[str, str]:
    path = f"{home.folder / 'bin'}:{home.environ['PATH']}"
    return {**home.environ, **git_environment(), "PATH": path, "TZ": "UTC"}


def _commit(home: Home, who: str, subject: str, file: str, old: str, new: str) -> None:
    """A colleague's commit at the remote."""
    desk = home.folder / "desk"
    name = {"NAME": who, "EMAIL": COLLEAGUES[who]}
    environ = {**git_environment(), **{f"GIT_{role}_{key}": name[key] for role in ROLES for key in name}}

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=home.folder, env=environ, check=True, capture_output=True)

    git("clone", "--quiet", "origin.git", str(desk))
    text = (desk / file).read_text()
    assert old in text, f"{file} has no {old!r}"
    (desk / file).write_text(text.replace(old, new, 1))
    git("-C", str(desk), "commit", "--quiet", "--all", "--message", subject)
    git("-C", str(desk), "push", "--quiet", "origin", BRANCH)
    shutil.rmtree(desk)
