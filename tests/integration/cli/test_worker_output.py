"""`supervisor logs WORKER`: what a worker wrote, followed across rotations; without a daemon."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.processes.output.files import make_output_folder
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


@pytest.mark.parametrize("worker_id", ["North", "South"])
def test_following_shows_each_whole_line_once_across_rotations_until_its_reader_is_gone(
    home: Home, worker_id: str
) -> None:
    path = home.output("North") if worker_id == "North" else home.folder / "south.log"
    write(path, "zero", "one", "two")
    words = [*SUPERVISOR, "logs", worker_id, "-f", "-n", "2"]
    with subprocess.Popen(words, cwd=home.folder, env=home.environ, stdout=subprocess.PIPE, text=True) as program:
        output = program.stdout
        assert output is not None

        def shows(*lines: str) -> bool:
            return [output.readline() for _ in lines] == [f"{line}\n" for line in lines]

        assert shows("one", "two")
        write(path, "three", "fo", end="")
        assert shows("three")
        write(path, "ur", *["beat"] * 3)
        assert shows("four", *["beat"] * 3)
        write(path, "last of this file")
        path.rename(path.with_name(f"{path.name}.1"))
        write(path, *map(str, range(10_000)))
        assert shows("last of this file", *map(str, range(10_000)))
        path.write_bytes(path.read_bytes()[-20_000:] + b"after a cut\n")
        assert shows("after a cut")
        output.close()
        write(path, "for nobody")
        assert program.wait(30) == 0
