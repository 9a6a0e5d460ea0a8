"""`why` with the real core: a host on which each worker is in another trouble, and what is said of it first."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.code.checkout_homes import CodeHome, code_worker, watcher
from tests.support.code.commits import straight
from tests.support.code.repositories import origin_and_checkout
from tests.support.homes import a_home, demo_command
from tests.support.waiting import wait_until

BROKEN = "import time\ntime.sleep(0.4)\nimport no_such_module\n"
HISTORY = straight({"watcher.py": BROKEN}, {"watcher.py": watcher(2)})
RESTS = {"policy": "never"}
"""One that ended stays as it is, so that it can be looked at."""


def script(text: str, **settings: Any) -> dict[str, Any]:
    """A worker that does this; it sends no heartbeat."""
    command = ["{python}", "-IS", "-u", "-c", text, "--worker-id", "{worker_id}"]
    usual = {"start_grace_seconds": 0.1, "stop_timeout_seconds": 5, "heartbeat_max_age_seconds": 0}
    return {"command": command, **usual, "restart": RESTS, **settings}


LATER = "import time; time.sleep(0.4); "
WORKERS: dict[str, dict[str, Any]] = {
    "Memory": script(LATER + "print('ERROR archive 17 is too large'); raise MemoryError"),
    "Disk": script(LATER + "f = open('/dev/full', 'w'); f.write('x' * 9999); f.flush()"),
    "Twice": script(
        LATER + "raise ValueError('no such archive')",
        restart={"policy": "always", "max_per_hour": 2, "backoff_seconds": 0},
    ),
    "Killed": script("import signal; signal.pause()"),
    "Frozen": {"command": demo_command(), "start_grace_seconds": 0.1},
    "Rests": {"command": demo_command(), "start_grace_seconds": 0.1},
    "Done": script(LATER + "print('done')", restart={"policy": "on-failure"}),
    "Off": script("", enabled=False),
    "Well": {"command": demo_command(), "start_grace_seconds": 0.1},
}


@dataclass(frozen=True)
class Case:
    """One trouble, and what must be said of it."""

    worker: str
    cause: str
    sentence: str
    todo: str
    command: str = ""


CASES = [
    Case(
        "Code",
        "deploy",
        r"Most likely the rollback by \S+ at .* broke Code: since then it exited \(code 1\) after .*: "
        r"`ModuleNotFoundError: No module named 'no_such_module'`\.",
        r"Undo restores its code to [0-9a-f]{7}\.",
        r"undo Code task_\w+",
    ),
    Case("Memory", "out_of_memory", r"Memory ran out of memory: it exited .* logged `MemoryError`", "more memory"),
    Case("Disk", "disk_full", r"A disk is full: Disk exited and reports .*No space left on device`", "free space"),
    Case(
        "Twice",
        "quarantined",
        r"Twice was quarantined at .* after 2 restarts in an hour: it exited \(code 1\) after "
        r".*, with `ValueError: no such archive`\.",
        "A restart ends the quarantine",
        "restart Twice",
    ),
    Case("Killed", "killed", r"Killed crashed \(SIGKILL\) at .* \(not sent by the supervisor", "Find out who or what"),
    Case("Frozen", "frozen", r"Frozen is frozen.*: stopped by SIGSTOP", r"`kill -CONT [0-9]+`", "restart Frozen"),
    Case(
        "Rests", "paused", r"Rests is paused by \S+ since .* with the label “the new disk”\.", "resume", "resume Rests"
    ),
    Case("Done", "ended_well", r"Done exited \(code 0\) at ", "restart"),
    Case("Off", "not_enabled", r"Off is disabled in the configuration", "workers.Off.enabled"),
    Case("Well", "well", r"Well is healthy: running for .*, last heartbeat (just now|[0-9]+ s ago)\.", ""),
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CodeHome]:
    clones = origin_and_checkout(tmp_path / "code", HISTORY)
    workers = {"Code": code_worker(clones.checkout.folder, restart=RESTS), **WORKERS}
    with a_home(tmp_path / "home", workers, CodeHome) as made:
        assert isinstance(made, CodeHome)
        made.clones = clones
        yield made


def test_the_first_sentence_names_the_true_cause_and_what_to_do(home: CodeHome) -> None:
    home.start_daemon()
    os.kill(home.worker("Frozen")["pid"], signal.SIGSTOP)  # that it's frozen is known ten seconds later
    for words in ("rollback Code 1", "pause Rests the new disk"):
        done = home.supervisor("send", words, "--wait")
        assert done.returncode == 0, done.stderr
    os.kill(home.worker("Killed")["pid"], signal.SIGKILL)
    ended = ("Code", "Memory", "Disk", "Killed", "Done")
    wait_until(lambda: all(home.worker(each)["pid"] is None for each in ended), 20, "they have ended")
    wait_until(lambda: home.worker("Twice")["quarantined"], 20, "it is given up")
    wait_until(lambda: home.worker("Frozen")["health"] == "frozen", 30, "it is frozen")
    wrong = [problem for case in CASES for problem in problems(case, explained(home, case.worker))]
    assert not wrong, "\n".join(wrong)

    told = home.supervisor("send", "why Code").stdout
    assert "supervisor undo Code task_" in told
    assert "Recent events:" in told
    assert re.search(r"rollback by \S+ succeeded \(task_", told), told
    everybody = home.supervisor("send", "why all")
    assert everybody.returncode == 1
    assert everybody.stdout.count("Next step:") == 6, everybody.stdout

    home.nas.rename(home.folder / "away")
    wait_until(lambda: "drive" in home.worker("Well")["reason"], 20, "it is known to be away")
    gone = explained(home, "Well")
    assert gone["cause"] == "drive_away"
    assert gone["sentence"].startswith(
        f"The shared drive at {home.nas} can't be reached, so the heartbeat of Well can't"
    )
    assert "Mount it" in gone["todo"]
    assert explained(home, "Frozen")["cause"] == "frozen", "that the drive is away does not stop a process"
    (home.folder / "away").rename(home.nas)


def explained(home: CodeHome, worker: str) -> dict[str, Any]:
    (found,) = home.json("send", f"why {worker}")
    return dict(found)


def problems(case: Case, told: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    found = [] if told["cause"] == case.cause else [f"{case.worker}: the cause is {told['cause']}"]
    found += [] if re.match(case.sentence, told["sentence"]) else [f"{case.worker}: {told['sentence']}"]
    found += [] if re.search(case.todo, told["todo"]) else [f"{case.worker}: what to do is {told['todo']}"]
    named = any(re.fullmatch(case.command, each) for each in told["commands"])
    return found + ([] if named or not case.command else [f"{case.worker}: {told['commands']}"])


FAILS_ONCE = """
import os, signal, sys, time, traceback
out = open("own.log", "a") if "own" in sys.argv else sys.stdout
if os.path.exists(sys.argv[-1]):
    print("all is well", file=out, flush=True)
    signal.pause()
open(sys.argv[-1], "w").close()
time.sleep(0.4)
try:
    raise ValueError("no such archive")
except ValueError:
    traceback.print_exc(file=out)
    out.flush()
    sys.exit(1)
"""


def test_a_traceback_belongs_to_the_process_that_wrote_it(tmp_path: Path) -> None:
    captured, own = script(FAILS_ONCE), script(FAILS_ONCE, log_file="own.log")
    workers = {
        "Captured": {**captured, "command": [*captured["command"], "captured"]},
        "Own": {**own, "command": [*own["command"], "own", "own.ran"]},
    }
    with a_home(tmp_path / "home", workers, CodeHome, alerts={"start_grace_seconds": 0}) as home:
        assert isinstance(home, CodeHome)
        home.start_daemon()
        wait_until(lambda: all(home.worker(each)["pid"] is None for each in workers), 20, "they have failed")
        wait_until(lambda: all("no such archive" in evidence(home, each) for each in workers), 20, "it's in the alerts")
        for worker in workers:
            assert "no such archive" in home.supervisor("why", worker).stdout
            assert home.supervisor("send", f"restart {worker}", "--wait").returncode == 0
        wait_until(lambda: not home.json("alerts"), 20, "they have recovered")
        for worker in workers:
            os.kill(home.worker(worker)["pid"], signal.SIGKILL)
        wait_until(lambda: all("all is well" in evidence(home, each) for each in workers), 20, "there are new alerts")
        for worker in workers:
            assert "no such archive" not in evidence(home, worker)
            explanation = explained(home, worker)
            assert explanation["cause"] == "killed"
            assert "no such archive" not in str(explanation), "an earlier process wrote that"
        starts = re.findall(r"^--- \S+Z starting Captured ---$", home.output("Captured").read_text(), re.MULTILINE)
        assert len(starts) == 2
        assert "starting Captured" in home.supervisor("logs", "Captured").stdout


def evidence(home: CodeHome, worker: str) -> str:
    """The lines of the log in the open alert of this worker."""
    return " ".join(str(alert) for alert in home.json("alerts") if alert["target_id"] == worker)
