"""The handler of added commands: ends in words, limits, output, and the functions of plug-ins."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.commands.definitions import DEFINITION_KEY, Extension, Output
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.schema import ORIGIN
from supervisor_core.daemon.handlers import added_handler
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.plugins import CommandCall, CommandResult
from supervisor_core.plugins.loading import added_command
from supervisor_core.workers.context import open_doors
from tests.support.homes import Home, a_home
from tests.support.processes.fake_processes import FakeProcesses
from tests.support.waiting import wait_until

Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a command with these settings on a host with one worker."""

    def run_once(name: str = "try-it", supervisor: str = "TestHost", /, **settings: Any) -> Outcome:
        document: dict[str, Any] = {
            "supervisor": {"id": supervisor, "state_dir": "var"},
            "workers": {"North": {"command": ["sleep", "9"], "env": {"KEY": "a-secret-of-North"}}},
            "commands": {"try-it": settings} if settings else {},
        }
        (tmp_path / "var").mkdir(mode=0o700, exist_ok=True)
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(document))
        environ = {"PATH": os.environ["PATH"], "OTHER": "not passed on"}
        config = load_supervisor_config(path, environ=environ)
        host = replace(open_doors(config), processes=FakeProcesses())
        definition = CATALOG[name]
        assert definition.extension is not None
        params = {DEFINITION_KEY: definition.extension.digest}
        anna, now = Issuer("cli:anna", "anna"), datetime(2026, 2, 5, tzinfo=UTC)
        job = Job(
            1, "TestHost", "t1", "North", str(definition.handler), params, None, anna, "cli", JobState.STARTED, now
        )
        handler = added_handler(job.handler)
        assert handler is not None
        try:
            return handler(host, job)
        except SupervisorError as error:
            return Outcome.failed(str(error))

    yield run_once
    CATALOG.extend(ORIGIN, ())
    CATALOG.extend("test", ())


PYTHON = ["{python}", "-c"]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("import sys; sys.exit(3)", "try-it exited (code 3)."),
        ("import sys; sys.exit('No such cache')", "try-it exited (code 1).\nNo such cache"),
        ("import os; os.abort()", "try-it crashed (SIGABRT)."),
    ],
)
def test_an_end_is_told_in_words(run: Run, program: str, error: str) -> None:
    outcome = run(argv=[*PYTHON, program])
    assert not outcome.success
    assert (outcome.error or "").startswith(error)


def test_a_missing_program_is_named(run: Run) -> None:
    assert run(argv=["no-such-program"]).error == (
        "The program no-such-program isn't installed. Install no-such-program."
    )


def test_at_the_time_limit_the_whole_process_group_is_killed(run: Run, tmp_path: Path) -> None:
    child = "import time, pathlib, os; pathlib.Path('child').write_text(str(os.getpid())); time.sleep(99)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    outcome = run(argv=[*PYTHON, parent], timeout=0.7)
    assert outcome.error == "try-it was killed: it ran for more than 0.7 s. To allow more, change its timeout."
    pid = int((tmp_path / "child").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 5, "the child is gone")


def test_the_environment_is_scrubbed_and_the_folder_is_the_worker_s(run: Run, tmp_path: Path) -> None:
    outcome = run(argv=[*PYTHON, "import os; print(os.getcwd()); print(sorted(os.environ))"], env={"MINE": "1"})
    folder, names = outcome.details["output"]["text"].splitlines()
    assert folder == str(tmp_path)
    assert "'MINE'" in names
    assert "OTHER" not in names
    assert "KEY" not in names


def test_secrets_colors_and_control_characters_do_not_come_through(run: Run) -> None:
    program = "print('\\x1b[31mred\\x1b[0m a-secret-of-North \\x07 sesame-5'); raise SystemExit('sesame-5')"
    outcome = run(argv=[*PYTHON, program], env={"TOKEN": "sesame-5"})
    assert outcome.details["output"]["text"] == "red **** \\x07 ****"
    assert outcome.error == "try-it exited (code 1).\n****"


def test_of_a_long_output_the_beginning_is_shown_and_all_is_in_a_file(run: Run) -> None:
    outcome = run(argv=[*PYTHON, "print('\\n'.join(map(str, range(5000))))"])
    output = outcome.details["output"]
    assert (output["cut"], output["text"].splitlines()) == (True, list(map(str, range(40))))
    assert Path(outcome.details["report_path"]).read_text().splitlines() == list(map(str, range(5000)))


def test_an_endless_output_is_bounded(run: Run) -> None:
    outcome = run(argv=[*PYTHON, "while True: print('x' * 1000)"], timeout=1.0, output="file")
    assert "was killed" in (outcome.error or "")
    assert Path(outcome.details["report_path"]).stat().st_size < 2 * 1024 * 1024


def test_a_table_has_its_rows_for_programs_too(run: Run) -> None:
    outcome = run(argv=["printf", r"name\tsize\n\na\t10\nlonger\t2\n"], output="table", changes=False)
    output = outcome.details["output"]
    assert output["rows"] == [["name", "size"], ["a", "10"], ["longer", "2"]]
    assert output["text"] == "name    size\na       10\nlonger  2"


def added(function: Callable[[CommandCall], Any], timeout: float = 5.0) -> None:
    extension = Extension("test 1.0", "f" * 16, function=function, timeout=timeout, output=Output.TEXT)
    plugged = added_command("plugged", "", (), extension, role="viewer", approval=False, changes=False)
    CATALOG.extend("test", (plugged,))


def test_a_function_gets_its_call_and_its_programs_end_with_its_time(run: Run, tmp_path: Path) -> None:
    seen: list[CommandCall] = []

    def function(call: CommandCall) -> CommandResult:
        seen.append(call)
        done = call.run(["sleep", "60"])
        return CommandResult("slept", f"{done.timed_out} {done.ok} a-secret-of-North")

    added(function, timeout=0.5)
    begun = time.monotonic()
    outcome = run("plugged")
    assert time.monotonic() - begun < 5
    assert outcome.details["output"]["text"] == "True False ****"
    assert outcome.details["message"] == "slept"
    [call] = seen
    assert (call.worker_id, call.folder, call.params, call.requested_by) == ("North", tmp_path, {}, "anna")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda _call: 1 / 0, "plugged failed: ZeroDivisionError: division by zero."),
        (lambda _call: None, "plugged returned NoneType, not a CommandResult."),
        (lambda _call: CommandResult(error="The cache a-secret-of-North is locked."), "The cache **** is locked."),
    ],
)
def test_a_function_that_fails_fails_its_command_alone(run: Run, function: Any, error: str) -> None:
    added(function)
    assert run("plugged").error == error


def test_a_function_that_hangs_holds_nobody_up(run: Run) -> None:
    release = threading.Event()
    added(lambda _call: release.wait(30), timeout=0.2)
    assert "may still be running" in (run("plugged").error or "")
    release.set()


def test_the_shell_has_it_as_a_subcommand_with_its_options(tmp_path: Path) -> None:
    echo = {
        "argv": ["echo", "{text}", "{loud}"],
        "parameters": {"text": {"pattern": ".*", "help": "100% of it"}, "loud": {"type": "flag"}},
    }
    with a_home(tmp_path / "home", commands={"say-it": echo}) as home:
        home.start_daemon()
        done = home.supervisor("say-it", "OrionMX", "--text", "two words", "--loud")
        assert (done.returncode, done.stdout.splitlines()[-3:-1]) == (0, ["ok: say-it OrionMX", "two words --loud"])
        assert "100% of it" in home.supervisor("say-it", "--help").stdout
        wrong = home.supervisor("say-it", "--text=-x")
        assert (wrong.returncode, "doesn't begin with a hyphen" in wrong.stderr) == (2, True)
        assert home.supervisor("say-that").returncode == 2
        for shell in ("bash", "zsh", "fish"):
            script = home.supervisor("completion", shell).stdout
            assert "say-it" in script
            assert "--loud" in script or "-l loud" in script


def test_a_kill_of_the_daemon_is_reported_as_interrupted_and_the_program_never_runs_again(tmp_path: Path) -> None:
    program = "import os, time; open('runs', 'a').write(str(os.getpid()) + ' '); time.sleep(60)"
    slow = {"argv": [*PYTHON, program], "timeout": 90}
    with a_home(tmp_path / "home", commands={"slow": slow}) as home:
        home.start_daemon()
        task_id = home.json("send", "slow OrionMX")["task_id"]
        runs = home.folder / "runs"
        wait_until(lambda: runs.exists() and bool(runs.read_text()), 20, "it runs")
        home.kill_newest_daemon()
        home.start_daemon()
        wait_until(lambda: len(_audit(home, task_id)) == 1, 20, "it's on record")
        [row] = _audit(home, task_id)
        assert (row["action"], row["outcome"]) == ("SLOW", "interrupted")
        assert "Its program may have continued without the supervisor." in row["details_json"]
        [pid] = runs.read_text().split()
        os.kill(int(pid), signal.SIGKILL)


def _audit(home: Home, task_id: str) -> list[dict[str, Any]]:
    return [row for row in home.json("audit") if row["task_id"] == task_id]
