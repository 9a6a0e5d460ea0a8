"""The completion scripts in real shells: somebody types and presses TAB."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import a_home, demo_command
from tests.support.terminals import on_terminal

pytestmark = pytest.mark.sampled(of_file=1)

READY = "ready-42"
SETUP = {
    "bash": "supervisor completion bash > script; source ./script",
    "zsh": "supervisor completion zsh > _supervisor; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D",
}
PROGRAMS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
ERASE_LINE = "\x15"

COMPLETED = [
    ("supervisor pa", "supervisor pause "),
    ("supervisor pause No", "supervisor pause North "),
    ("supervisor pause team:a", "supervisor pause team:archive "),
    ("supervisor restart --keep", "supervisor restart --keep-going "),
    ("supervisor daemon sto", "supervisor daemon stop "),
    ("supervisor daemon stop --w", "supervisor daemon stop --workers "),
    ("supervisor status --worker S", "supervisor status --worker South "),
    ("supervisor logs --event worker.ex", "supervisor logs --event worker.exited "),
    ("supervisor logs --level w", "supervisor logs --level warning "),
    ("supervisor doctor --config conf", "supervisor doctor --config config.yaml "),
]


def installed(shell: str) -> bool:
    return shutil.which(shell) is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a configuration with two workers and a team, and with the program in `bin`."""
    workers = {"North": {"command": demo_command(), "team": "archive"}, "South": {"command": demo_command()}}
    with a_home(tmp_path_factory.mktemp("shells") / "home", workers, teams={"archive": {}}) as home:
        program = home.folder / "bin" / "supervisor"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m supervisor_core.cli "$@"\n')
        program.chmod(0o755)
        yield home.folder


def environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(folder), "TERM": "dumb", "PS1": "> ", "LC_ALL": "C.UTF-8"}


def plain(text: str) -> str:
    """What stands on the screen, without the bell, styles and redrawn letters."""
    for noise in ("\x07", "\x1b[1m", "\x1b[0m", "\x1b[22m", "\x1b[K", "s\x08"):
        text = text.replace(noise, "")
    return text


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(name, marks=pytest.mark.skipif(not installed(name), reason=f"{name} isn't installed"))
        for name in PROGRAMS
    ],
)
def test_a_tab_completes_what_is_typed(shell: str, folder: Path) -> None:
    with on_terminal(PROGRAMS[shell], folder, environment(folder)) as terminal:

        def press(keys: str, expected: str) -> str:
            terminal.type(keys)
            return terminal.wait_for(expected, plain)

        press(f"{SETUP[shell]}; echo ready-$((40 + 2))\n", READY)
        for typed, completed in COMPLETED:
            if shell == "bash" and ":" in typed:  # bash ends a word at a colon
                continue
            press(f"{typed}\t", completed)
            press(ERASE_LINE + "echo ready-$((40 + 2))\n", READY)
        listed = press("supervisor pause \t\t", "team:archive")
        assert "North" in listed
        assert "South" in listed


def fish_completes(folder: Path, typed: str) -> list[str]:
    words = ["fish", "--no-config", "-c", f"source supervisor.fish; complete -C '{typed}'"]
    done = subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.skipif(not installed("fish"), reason="fish isn't installed")
def test_fish_completes(folder: Path) -> None:
    write = "supervisor completion fish > supervisor.fish"
    subprocess.run(["fish", "--no-config", "-c", write], cwd=folder, env=environment(folder), check=True)
    for typed, completed in COMPLETED:
        assert fish_completes(folder, typed) == [completed.split()[-1]]
    names = {"North", "South", "team:archive", "all"}
    assert set(fish_completes(folder, "supervisor pause ")) == names
    assert fish_completes(folder, "supervisor daemon restart ") == [], "this is not the command for workers"
    assert set(fish_completes(folder, "supervisor daemon ")) == {"start", "stop", "restart", "run", "logs"}
