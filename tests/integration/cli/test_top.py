"""`supervisor top` on a real pseudo-terminal: a live view that leaves the terminal as it found it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from supervisor_core.cli.top import ENTER, LEAVE
from tests.support.homes import SUPERVISOR, Home, a_home

COLOURS = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with a_home(tmp_path_factory.mktemp("top") / "home") as made:
        made.start_daemon()
        yield made


class Terminal:
    def __init__(self, home: Home, words: tuple[str, ...], **environ: str) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        env = {**home.environ, "TERM": "xterm", **environ}
        self.program = subprocess.Popen(
            [*SUPERVISOR, *words], cwd=home.folder, env=env, stdin=self.slave, stdout=self.slave, stderr=self.slave
        )
        self.said = ""

    def wait_for(self, text: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.said:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.said!r}"
            if select.select([self.master], [], [], 1)[0]:
                self.said += os.read(self.master, 65536).decode()

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())


@contextmanager
def top(home: Home, *words: str, **environ: str) -> Iterator[Terminal]:
    terminal = Terminal(home, words or ("top",), **environ)
    try:
        yield terminal
    finally:
        terminal.program.kill()
        terminal.program.wait()
        os.close(terminal.master)
        os.close(terminal.slave)


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_it_shows_the_workers_and_a_key_quits(home: Home, key: str) -> None:
    with top(home) as terminal:
        terminal.wait_for("q quits")
        assert terminal.said.startswith(ENTER)
        shown = COLOURS.sub("", terminal.said).replace("\r", "").split("\n")
        assert max(map(len, shown)) <= 80
        assert any(line.startswith("running  OrionMX") for line in shown)
        terminal.type(key)
        terminal.wait_for(LEAVE)
        assert terminal.program.wait(10) == 0
        assert termios.tcgetattr(terminal.slave) == terminal.before


def test_a_change_is_shown_at_once(home: Home) -> None:
    with top(home) as terminal:
        terminal.wait_for("q quits")
        assert home.supervisor("pause", "OrionMX").returncode == 0
        terminal.wait_for("paused", 15)
        assert home.supervisor("resume", "OrionMX").returncode == 0


def test_a_signal_restores_the_terminal(home: Home) -> None:
    with top(home) as terminal:
        terminal.wait_for("q quits")
        terminal.program.send_signal(signal.SIGTERM)
        terminal.wait_for(LEAVE)
        terminal.program.wait(10)
        assert termios.tcgetattr(terminal.slave) == terminal.before


def test_piped_it_prints_once(home: Home) -> None:
    done = home.supervisor("top")
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)
    assert "OrionMX" in done.stdout


def test_steps_are_a_checklist_on_a_terminal(home: Home) -> None:
    with top(home, "restart", "OrionMX") as terminal:
        terminal.wait_for("\x1b[33m•\x1b[0m Stopping OrionMX")
        terminal.wait_for("\x1b[32m✓\x1b[0m Starting OrionMX")
        terminal.wait_for("ok: Restarted OrionMX")
        assert terminal.program.wait(10) == 0


@pytest.mark.parametrize("words", [("status",), ("audit",), ("restart", "OrionMX")])
def test_no_color_is_respected(home: Home, words: tuple[str, ...]) -> None:
    assert home.supervisor("resume", "OrionMX").returncode == 0, "the audit trail has a row"
    with top(home, *words, NO_COLOR="1") as terminal:
        terminal.wait_for("OrionMX")
        terminal.program.wait(30)
        assert re.search(r"\x1b\[\d*m", terminal.said) is None
