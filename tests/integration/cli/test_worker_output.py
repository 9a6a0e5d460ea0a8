"""`supervisor logs WORKER`: what a worker wrote, followed across rotations; without a daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.cli.worker_output import OutputFollower
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.processes.output.files import make_output_folder
from supervisor_core.workers.context import open_drive
from tests.support.homes import SUPERVISOR, Home, a_home, demo_command


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    workers = {"North": {"command": demo_command()}, "South": {"command": demo_command(), "log_file": "south.log"}}
    with a_home(tmp_path / "home", workers) as made:
        made.state_dir.mkdir(mode=0o700)
        make_output_folder(made.state_dir)
        yield made


def write(path: Path, *lines: str, end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("\n".join(lines) + end)
    path.chmod(0o600)


def follower(home: Home, worker_id: str = "North") -> OutputFollower:
    config = load_supervisor_config(home.config, environ={"PATH": os.environ["PATH"]})
    return OutputFollower(open_drive(config), config, config.worker(worker_id))


def test_the_newest_lines_are_shown_without_a_daemon(home: Home) -> None:
    write(home.output("North"), *map(str, range(100)))
    assert home.supervisor("logs", "North", "-n", "2").stdout == "98\n99\n"
    assert home.supervisor("logs", "North", "3").stdout == "97\n98\n99\n"
    assert home.json("logs", "North", "1")[0]["lines"] == ["99"]
    assert len(home.supervisor("logs", "North").stdout.splitlines()) == 50


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Nort"], "North"),
        (["North", "--level", "error"], "--worker, --level, --since and --event search the supervisor's events"),
        (["all", "-f"], "-f follows the output of one worker"),
        (["North", "some"], "must be a number from 0 to 1000000, not 'some'"),
    ],
)
def test_a_mistake_is_usage(home: Home, words: list[str], said: str) -> None:
    done = home.supervisor("logs", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_suggestion_repeats_only_what_was_typed(home: Home) -> None:
    assert "`supervisor logs North`" in home.supervisor("logs", "Nort").stderr
    assert "`supervisor logs North 7`" in home.supervisor("logs", "Nort", "7").stderr


def test_new_lines_come_once_and_only_when_they_are_whole(home: Home) -> None:
    path = home.output("North")
    write(path, "one", "two", "three")
    output = follower(home)
    assert output.newest(2) == ["two", "three"]
    assert output.new_lines() == []
    write(path, "four", "fi", end="")
    assert output.new_lines() == ["four"]
    write(path, "ve")
    assert output.new_lines() == ["five"]


def test_lines_that_are_all_the_same_are_counted(home: Home) -> None:
    path = home.output("North")
    write(path, *["beat"] * 1000)
    output = follower(home)
    output.newest(1)
    write(path, *["beat"] * 3)
    assert output.new_lines() == ["beat"] * 3


@pytest.mark.parametrize("worker_id", ["North", "South"])
def test_nothing_is_lost_or_repeated_when_the_file_is_rotated(home: Home, worker_id: str) -> None:
    path = home.output("North") if worker_id == "North" else home.folder / "south.log"
    write(path, "one", "two")
    output = follower(home, worker_id)
    assert output.newest(10) == ["one", "two"]
    write(path, "three")
    path.rename(path.with_name(f"{path.name}.1"))
    write(path, "four")
    assert output.new_lines() == ["three", "four"]
    write(path, "five")
    assert output.new_lines() == ["five"]


def test_a_file_whose_beginning_was_cut_off_goes_on(home: Home) -> None:
    path = home.output("North")
    write(path, *map(str, range(10_000)))
    output = follower(home)
    output.newest(3)
    path.write_bytes(path.read_bytes()[-20_000:] + b"next\n")
    assert output.new_lines() == ["next"]


def test_the_program_follows_until_its_reader_is_gone(home: Home) -> None:
    write(home.output("North"), "one")
    words = [*SUPERVISOR, "logs", "North", "-f"]
    with subprocess.Popen(words, cwd=home.folder, env=home.environ, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "one\n"
        write(home.output("North"), "two")
        assert program.stdout.readline() == "two\n"
        program.stdout.close()
        assert program.wait(30) == 0, sys.stderr
