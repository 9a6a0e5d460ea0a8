"""`supervisor send` beside a daemon: the daemon queues the command, and the shell imports nothing slow for it."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from supervisor_core.config.raw import text_digest
from supervisor_core.daemon.control.client import ControlError, ask
from tests.support.daemon.daemon_homes import SLEEPER
from tests.support.homes import Home, a_home
from tests.support.programs.logins import logged_in_as
from tests.support.waiting import wait_until

PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
from supervisor_core.cli import main
sys.exit(main())
"""
TRACING = (sys.executable, "-c", PROGRAM)
"""The command line, which names the modules it imported when it ends."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("home") / "home"
    slack = {"approvals": {"required_for": ["restart"], "doors": ["cli"]}}
    with a_home(folder, {"North": SLEEPER, "South": SLEEPER}, slack=slack) as made:
        made.start_daemon()
        yield made


@pytest.mark.parametrize("words", [["send", "pause North hotfix", "--wait"], ["resume", "North"]])
def test_a_command_is_sent_and_waited_for_without_slow_imports(home: Home, words: list[str]) -> None:
    done = home.supervisor(*words, program=TRACING)
    assert done.returncode == 0, done.stderr
    assert "North" in done.stdout
    slow = {"sqlalchemy", "pydantic", "asyncio", "psutil", "git", "requests", "apscheduler"}
    assert slow & set(done.stderr.split()) == set()


def test_the_audit_trail_names_the_user_of_the_shell(home: Home) -> None:
    sent = home.json("send", "diagnostics North", "--wait")
    [row] = home.audit(sent["task_id"])
    assert row["actor"] == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"


def test_the_person_is_who_logged_in_whatever_user_the_command_runs_as(home: Home) -> None:
    program, name = logged_in_as("daemon")
    for words in (["send", "diagnostics South", "--wait"], ["monitoring", "pause"], ["monitoring", "resume"]):
        assert home.supervisor(*words, program=program).returncode == 0
    assert [row["actor"] for row in home.audit()[-3:]] == [f"cli:{name}"] * 3


def test_without_a_daemon_the_person_is_the_same(tmp_path: Path) -> None:
    program, name = logged_in_as("daemon")
    with a_home(tmp_path / "home", {"North": SLEEPER}) as alone:
        assert alone.supervisor("send", "diagnostics", program=program).returncode == 0
        alone.supervisor("once")
        assert [row["actor"] for row in alone.audit()] == [f"cli:{name}"]


def test_batches_are_waited_for_only_with_a_time_limit(home: Home) -> None:
    asked = home.supervisor("restart", "all", "--batch", "1", "--healthy", "1d")
    assert (asked.returncode, asked.stdout.splitlines()[0][:20]) == (0, "Waiting for approval"), "it has returned"


@pytest.mark.parametrize(("words", "code"), [("pause Nort", 2), ("pause North 'bad/label'", 2), ("undo North", 1)])
def test_a_refusal_reads_the_same_as_without_a_daemon(home: Home, tmp_path: Path, words: str, code: int) -> None:
    with_daemon = home.supervisor("send", words, "--wait")
    with a_home(tmp_path / "other", {"North": SLEEPER, "South": SLEEPER}) as other:
        without = other.supervisor("send", words)
    assert with_daemon.returncode == code
    if code == 2:
        assert (without.returncode, without.stderr) == (code, with_daemon.stderr)


def test_a_command_that_needs_approval_waits_for_it(home: Home) -> None:
    done = home.supervisor("send", "restart South")
    assert (done.returncode, done.stdout.splitlines()[0][:20]) == (0, "Waiting for approval")


def _shell(home: Home) -> dict[str, str]:
    return {"user": "anna", "config": text_digest(home.config.read_text())}


def test_a_command_id_that_was_queued_before_runs_once(home: Home) -> None:
    request = {"do": "send", "text": "diagnostics South", "task_id": "task_1", **_shell(home)}
    state_dir = str(home.folder / "var")
    first, second = ask(state_dir, request), ask(state_dir, request)
    assert first == second
    assert first["command"]["workers"] == ["South"]
    ended = ask(state_dir, {"do": "wait", "task_id": "task_1", "seconds": 20}, 21)
    assert ended["done"]
    assert len(home.audit("task_1")) == 1


def test_the_words_mean_the_workers_of_the_shells_configuration_not_of_an_older_one(home: Home) -> None:
    newer = yaml.safe_load(home.config.read_text())
    newer["workers"]["East"] = SLEEPER
    path = home.folder / "newer.yaml"
    path.write_text(yaml.safe_dump(newer))
    done = home.supervisor("send", "--config", str(path), "diagnostics East")
    assert (done.returncode, done.stdout.split(" as ")[0]) == (0, "Queued: diagnostics East")
    done = home.supervisor("send", "diagnostics East", "--wait", "--json")
    assert len(json.loads(done.stdout)["details"]["workers"]) == 2, "here it's a label"


@pytest.mark.parametrize(
    "changed",
    [
        {"task_id": "../../../etc/x"},
        {"task_id": ""},
        {"task_id": "t\ud800"},
        {"task_id": "task_20260205_143015_0123456ab"},
        {"task_id": 7},
        {"text": ["pause North"]},
    ],
)
def test_a_request_that_no_shell_makes_queues_nothing(home: Home, changed: dict[str, object]) -> None:
    request = {"do": "send", "text": "diagnostics South", "task_id": "task_2", **_shell(home), **changed}
    with pytest.raises(ControlError):
        ask(str(home.folder / "var"), request)
    home.json("send", "diagnostics North", "--wait")
    assert home.audit("task_2") == []
    assert home.audit(str(changed.get("task_id"))) == []
    assert "Traceback" not in home.daemon_log()


def test_a_daemon_that_hangs_is_named_as_the_reason(home: Home) -> None:
    pid = home.status()["supervisor"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        done = home.supervisor("send", "diagnostics North", "--wait", "--timeout", "1")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert done.returncode == 1
    assert "waits, because the daemon isn't responding" in done.stdout
    task_id = next(word for word in done.stdout.split() if word.startswith("task_"))
    wait_until(lambda: home.audit(task_id), 20, "it runs once the daemon goes on")
    assert len(home.audit(task_id)) == 1
