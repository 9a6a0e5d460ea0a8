"""`supervisor top` on a real pseudo-terminal: a live view that leaves the terminal as it found it."""

from __future__ import annotations

import os
import re
import signal
import termios
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from supervisor_core.cli.top import ENTER, LEAVE
from tests.support.homes import SUPERVISOR, Home, a_home
from tests.support.terminals import Terminal, on_terminal

COLOURS = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with a_home(tmp_path_factory.mktemp("top") / "home") as made:
        made.start_daemon()
        yield made


def top(home: Home, *words: str, **environ: str) -> AbstractContextManager[Terminal]:
    return on_terminal([*SUPERVISOR, *(words or ("top",))], home.folder, {**home.environ, "TERM": "xterm", **environ})


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_it_shows_the_workers_and_a_key_quits(home: Home, key: str) -> None:
    with top(home) as terminal:
        terminal.wait_for("q quits")
        assert terminal.shown.startswith(ENTER)
        shown = COLOURS.sub("", terminal.shown).split("\n")
        assert max(map(len, shown)) <= 80
        assert any(line.startswith("running  OrionMX") for line in shown)
        terminal.type(key)
        terminal.wait_for(LEAVE)
        assert terminal.end() == 0
        assert termios.tcgetattr(terminal.descriptor) == terminal.before


def test_a_change_is_shown_at_once(home: Home) -> None:
    with top(home) as terminal:
        terminal.wait_for("q quits")
        assert home.supervisor("pause", "OrionMX").returncode == 0
        terminal.wait_for("paused")
        assert home.supervisor("resume", "OrionMX").returncode == 0


def test_a_signal_restores_the_terminal(home: Home) -> None:
    with top(home) as terminal:
        terminal.wait_for("q quits")
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.wait_for(LEAVE)
        terminal.end()
        assert termios.tcgetattr(terminal.descriptor) == terminal.before


def test_piped_it_prints_once(home: Home) -> None:
    done = home.supervisor("top")
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)
    assert "OrionMX" in done.stdout


def test_steps_are_a_checklist_on_a_terminal(home: Home) -> None:
    with top(home, "restart", "OrionMX") as terminal:
        terminal.wait_for("\x1b[33m•\x1b[0m Stopping OrionMX")
        terminal.wait_for("\x1b[32m✓\x1b[0m Starting OrionMX")
        terminal.wait_for("ok: Restarted OrionMX")
        assert terminal.end() == 0


@pytest.mark.parametrize("words", [("status",), ("audit",), ("restart", "OrionMX")])
def test_no_color_is_respected(home: Home, words: tuple[str, ...]) -> None:
    assert home.supervisor("resume", "OrionMX").returncode == 0, "the audit trail has a row"
    with top(home, *words, NO_COLOR="1") as terminal:
        terminal.wait_for("OrionMX")
        terminal.end()
        assert re.search(r"\x1b\[\d*m", terminal.shown) is None
