"""`supervisor logs` as people and programs call it, on what real programs wrote."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.homes import SUPERVISOR, Home, a_home
from tests.unit.test_imports import SLOW, imported_by

FIRST = "2026-02-05T14:30:15.234Z"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as home:
        home.state_dir.mkdir()
        yield home


def line(message: str, **fields: Any) -> str:
    usual = {"timestamp": FIRST, "level": "INFO", "event": "log", "message": message, "logger": "supervisor_core.x"}
    return json.dumps({**usual, "worker_id": None, "task_id": None, "label": None, **fields}) + "\n"


def log(home: Home, *lines: str, end: str = "") -> None:
    with (home.state_dir / f"events.jsonl{end}").open("a") as file:
        file.writelines(lines)


@contextmanager
def following(home: Home, *words: str, stdout: int | IO[Any] = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """`supervisor logs -f`, until the test is over."""
    with subprocess.Popen(
        [*SUPERVISOR, "logs", "-f", *words],
        cwd=home.folder,
        env=home.environ,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        try:
            yield follower
        finally:
            follower.kill()


def next_line(follower: subprocess.Popen[str]) -> str:
    assert follower.stdout is not None
    return follower.stdout.readline()


def test_the_newest_events_are_shown_oldest_first_out_of_rotated_files_too(home: Home) -> None:
    """The snapshot of what people see."""
    log(home, line("too old"), line("started", worker_id="OrionMX"), end=".1")
    log(home, line("it is stuck", level="ERROR", worker_id="OrionMX", task_id="night_001"), line("is up, pid 4711"))
    done = home.supervisor("logs", "-n", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "2026-02-05 14:30:15.234Z  INFO     OrionMX  -          started",
        "2026-02-05 14:30:15.234Z  ERROR    OrionMX  night_001  it is stuck",
        "2026-02-05 14:30:15.234Z  INFO     -        -          is up, pid 4711",
    ]


def test_worker_level_and_time_narrow_it_down(home: Home) -> None:
    log(home, line("old", timestamp="2026-01-01T00:00:00.000Z", level="ERROR", worker_id="OrionMX"))
    log(
        home,
        line("fits", level="ERROR", worker_id="OrionMX", task_id="t1"),
        line("its task", task_id="t1", level="CRITICAL"),
    )
    log(home, line("too low", worker_id="OrionMX"), line("another's", level="ERROR", worker_id="West"))
    done = home.supervisor("logs", "--worker", "OrionMX", "--level", "error", "--since", "2026-02-01", "--json")
    assert [json.loads(each)["message"] for each in done.stdout.splitlines()] == ["fits", "its task"]


def test_events_are_chosen_by_name_and_pattern(home: Home) -> None:
    names = ("worker.started", "worker.exited", "command.done", "log", "workers.gone")
    log(home, *(line(name, event=name) for name in names))

    def shown(*words: str) -> list[str]:
        return [json.loads(each)["event"] for each in home.supervisor("logs", "--json", *words).stdout.splitlines()]

    assert shown("--event", "worker.exited") == ["worker.exited"]
    assert shown("--event", "worker.*", "--event", "command.done") == [
        "worker.started",
        "worker.exited",
        "command.done",
    ]
    assert shown("--event", "worker.*", "-n", "1") == ["worker.exited"], "the newest one that fits"
    assert shown("--event", "log") == ["log"]


def test_a_half_written_line_is_counted_aside(home: Home) -> None:
    log(home, line("one"), line("half")[:50] + line("two"), line("the last")[:30])
    done = home.supervisor("logs", "--json")
    assert (done.returncode, done.stdout) == (0, line("one") + line("two"))
    assert done.stderr == "supervisor: skipped 2 damaged lines, as a power cut leaves them.\n"


def test_no_log_is_no_failure_and_is_said(home: Home) -> None:
    done = home.supervisor("logs")
    assert (done.returncode, done.stdout) == (0, "")
    path = home.state_dir / "events.jsonl"
    assert done.stderr == f"supervisor: there's no log at {path} yet. The daemon or a pass creates it.\n"


def test_a_worker_that_nobody_knows_is_looked_for_and_said(home: Home) -> None:
    log(home, line("of old times", worker_id="OrionMY"))
    done = home.supervisor("logs", "--worker", "OrionMY")
    assert (done.returncode, "of old times" in done.stdout) == (0, True)
    assert done.stderr == "supervisor: there's no worker 'OrionMY' in the configuration. Did you mean OrionMX?\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "tomorrow"], "--since 'tomorrow' isn't a time. Try 30s, 12h, 2d, yesterday or 2026-01-31."),
        (["--level", "loud"], "must be one of debug, info, warning, error, critical, not 'loud'"),
        (["--event", "worker.exitd"], "there's no log event 'worker.exitd'. Did you mean worker.exited?"),
        (["--event", "zzz"], "there's no log event 'zzz'; docs/reference/events.md lists them"),
        (["-n", "-1"], "must be a number from 0 to 1000000"),
        (["-n", "some"], "must be a number from 0 to 1000000, not 'some'"),
    ],
)
def test_wrong_usage_is_said_with_what_was_expected(home: Home, words: list[str], said: str) -> None:
    done = home.supervisor("logs", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_it_follows_what_comes_across_a_rotation(home: Home) -> None:
    log(home, line("before"))
    with following(home, "--json") as follower:
        assert next_line(follower) == line("before")
        log(home, line("one"))
        assert next_line(follower) == line("one")
        log(home, line("two"))
        (home.state_dir / "events.jsonl").rename(home.state_dir / "events.jsonl.1")
        log(home, line("three"))
        assert [next_line(follower), next_line(follower)] == [line("two"), line("three")]


def test_ctrl_c_ends_it_quietly_as_an_interrupted_command(home: Home) -> None:
    log(home, line("before"))
    with following(home) as follower:
        next_line(follower)
        follower.send_signal(signal.SIGINT)
        assert follower.communicate(timeout=10) == ("", "")
        assert follower.returncode == 130


def test_it_ends_by_itself_when_nobody_reads_it_any_more(home: Home) -> None:
    log(home, line("before"))
    with following(home) as follower:
        next_line(follower)
        assert follower.stdout is not None
        follower.stdout.close()
        assert follower.wait(10) == 0


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)])
def test_on_a_terminal_levels_have_colours_unless_they_are_not_wanted(
    home: Home, environ: dict[str, str], coloured: bool
) -> None:
    log(home, line("bad", level="ERROR"))
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [*SUPERVISOR, "logs"], cwd=home.folder, env={**home.environ, **environ}, stdout=theirs, check=True
        )
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    level = "\x1b[31mERROR  \x1b[0m" if coloured else "ERROR  "
    assert shown == f"2026-02-05 14:30:15.234Z  {level}  -  -  bad\r\n"


def test_it_imports_nothing_slow() -> None:
    found = imported_by("import supervisor_core.cli.logs")
    assert found & {*SLOW, "pathlib"} == set()
