"""The completion scripts in real shells: somebody types and presses TAB."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.homes import a_home, demo_command

READY = "ready-42"
SETUP = {
    "bash": "source <(supervisor completion bash)",
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(supervisor completion zsh)"',
}
PROGRAMS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
ERASE_LINE = b"\x15"
SECONDS = 30.0

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


class Terminal:
    """A shell on a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def press(self, keys: bytes, expected: str) -> str:
        """Type, and read until the expected text is shown; returns all that was shown."""
        os.write(self._descriptor, keys)
        shown, deadline = b"", time.monotonic() + SECONDS
        while expected not in plain(shown):
            left = deadline - time.monotonic()
            assert left > 0, f"{expected!r} is not in {plain(shown)!r}"
            if select.select([self._descriptor], [], [], left)[0]:
                shown += os.read(self._descriptor, 65536)
        return plain(shown)


def plain(shown: bytes) -> str:
    """What stands on the screen, without the bell, styles and redrawn letters."""
    text = shown.decode(errors="replace")
    for noise in ("\x07", "\x1b[1m", "\x1b[0m", "\x1b[22m", "\x1b[K", "s\x08"):
        text = text.replace(noise, "")
    return text


@contextmanager
def a_shell(name: str, folder: Path) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        PROGRAMS[name], cwd=folder, env=environment(folder), stdin=theirs, stdout=theirs, stderr=theirs, process_group=0
    )
    os.close(theirs)
    terminal = Terminal(ours)
    try:
        terminal.press(f"{SETUP[name]}; echo ready-$((40 + 2))\n".encode(), READY)
        yield terminal
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(name, marks=pytest.mark.skipif(not installed(name), reason=f"{name} isn't installed"))
        for name in PROGRAMS
    ],
)
def test_a_tab_completes_what_is_typed(shell: str, folder: Path) -> None:
    with a_shell(shell, folder) as terminal:
        for typed, completed in COMPLETED:
            if shell == "bash" and ":" in typed:  # bash ends a word at a colon
                continue
            terminal.press(f"{typed}\t".encode(), completed)
            terminal.press(ERASE_LINE + b"echo ready-$((40 + 2))\n", READY)
        listed = terminal.press(b"supervisor pause \t\t", "team:archive")
        assert "North" in listed
        assert "South" in listed


def fish_completes(folder: Path, typed: str) -> list[str]:
    script = f"supervisor completion fish | source; complete -C '{typed}'"
    words = ["fish", "--no-config", "-c", script]
    done = subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.skipif(not installed("fish"), reason="fish isn't installed")
def test_fish_completes(folder: Path) -> None:
    for typed, completed in COMPLETED:
        assert fish_completes(folder, typed) == [completed.split()[-1]]
    names = {"North", "South", "team:archive", "all"}
    assert set(fish_completes(folder, "supervisor pause ")) == names
    assert fish_completes(folder, "supervisor daemon restart ") == [], "this is not the command for workers"
    assert set(fish_completes(folder, "supervisor daemon ")) == {"start", "stop", "restart", "run", "logs"}
