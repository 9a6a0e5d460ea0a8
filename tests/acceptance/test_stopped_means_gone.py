"""Stopped means that nobody is left: trees that ignore TERM, sessions of their own, and what can't be killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    worker = {
        "command": demo_command("--control", "{worker_id}.control", "--poll-seconds", "0.05"),
        "start_grace_seconds": 0.2,
        "stop_timeout_seconds": 1,
    }
    with a_home(tmp_path / "home", {"OrionMX": worker}) as made:
        yield made


def tell(home: Home, word: str) -> None:
    """Have the demo worker misbehave."""
    (home.folder / "OrionMX.control").write_text(word)


def set_of(home: Home) -> list[int]:
    """Everybody who works in the home's folder, whatever they call themselves."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            here = (entry / "cwd").resolve() == home.folder.resolve()
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        if here and b"SUPERVISOR_GENERATION=" in environ:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("word", ["fork", "daemonize"])
def test_grandchildren_that_ignore_term_are_gone_when_we_say_stopped(home: Home, word: str) -> None:
    home.start_daemon()
    tell(home, word)
    wait_until(lambda: len(set_of(home)) >= 2, 10, "the worker has descendants")
    outcome = home.json("send", "pause", "--wait")
    assert outcome["success"], outcome
    assert set_of(home) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("word", ["ignore-term", "hang", "freeze"])
def test_a_worker_that_does_not_obey_is_killed_and_named(home: Home, word: str) -> None:
    home.start_daemon()
    (pid,) = home.running_copies("OrionMX")
    tell(home, word)
    output = home.output("OrionMX")
    wait_until(lambda: f"told to misbehave: {word}" in output.read_text(), 10, "the worker took the word")
    outcome = home.json("send", "pause", "--wait")
    assert outcome["success"], outcome
    assert not Path(f"/proc/{pid}").exists()
    assert set_of(home) == []


def test_what_cannot_be_killed_is_stuck_named_and_1(home: Home) -> None:
    home.start_daemon(program=(sys.executable, "-m", "tests.support.programs.unkillable"))
    (pid,) = home.running_copies("OrionMX")
    sent = home.supervisor("send", "pause", "--wait")
    assert sent.returncode == 1
    assert "stuck" in sent.stdout
    assert f"pid {pid}" in sent.stdout
    (row,) = home.audit()
    assert row["outcome"] == "failure"
    assert home.running_copies("OrionMX") == [pid], "it lives, and nobody says otherwise"
    worker = home.worker("OrionMX")
    assert (worker["state"], worker["pid"], worker["fine"]) == ("stuck", pid, False)
    assert home.supervisor("send", "resume", "--wait").returncode == 1
