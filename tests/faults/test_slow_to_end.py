"""What is slow to end, or fails again and again: waited for as long as was said, then ended, named, told by exit 1."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon import ownership as runtime_file
from supervisor_core.daemon.app import Application
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger, prepare_state_dir
from supervisor_core.daemon.ownership import daemon_holder
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=3)

PATIENCE_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 1.5
DEFIANT = {
    **SLEEPER,
    "command": ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"],
    "stop_timeout_seconds": STOP_TIMEOUT_SECONDS,
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    with a_home(tmp_path / "home", {"North": SLEEPER, "South": DEFIANT}, make=Host) as made:
        assert isinstance(made, Host)
        yield made


def with_service(home: Host, how: str) -> tuple[str, ...]:
    """The command line, in a program whose heartbeat service behaves so."""
    program = home.folder / "troubled.py"
    program.write_text(TROUBLED)
    return (sys.executable, str(program), how)


TROUBLED = """
import asyncio, pathlib, sys, time
from supervisor_core.daemon import app

how = sys.argv.pop(1)
cured = pathlib.Path("cured")

class Troubled(app.HeartbeatService):
    async def run(self, stopping):
        if how == "raises at once" and not cured.exists():
            raise OSError(28, "No space left on device")
        if how == "raises after a while":
            while not stopping.is_set() and (cured.exists() or not pathlib.Path("now").exists()):
                await asyncio.sleep(0.02)
            if not stopping.is_set():
                raise KeyError("a mistake")
            return
        if how == "slow":
            await stopping.wait()
            while True:
                await asyncio.sleep(0.02)
        await super().run(stopping)

app.HeartbeatService = Troubled
app.STOP_LIMIT_SECONDS = 0.0
app.STOP_MARGIN_SECONDS = 1.0
from supervisor_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_worker_slow_to_end_is_waited_for_and_then_killed_within_the_bound_that_was_said(home: Host) -> None:
    home.started()
    home.all_run()
    done = home.supervisor("stop", "--workers")
    assert (done.returncode, done.stderr) == (0, "")
    assert "its workers were stopped" in done.stdout
    assert home.everybody() == []
    ended = dict(re.findall(r"T([\d:.]+)Z\].* (North|South) stopped", home.log()))
    times = {name: seconds(at) for at, name in ended.items()}
    told = seconds(re.findall(r"T([\d:.]+)Z\].* is stopping; its workers stop, too", home.log())[0])
    assert times["North"] <= times["South"], "the quick one does not wait for the slow one"
    assert times["South"] - told >= STOP_TIMEOUT_SECONDS, "it has its time"
    said = runtime_file.read(home.state_dir)
    assert said["running"] is False
    assert {(each["actual"]["state"], each["actual"]["pid"]) for each in said["workers"].values()} == {
        ("stopped", None)
    }


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def test_workers_that_can_not_be_ended_are_named_and_are_not_said_to_be_gone(tmp_path: Path) -> None:
    unkillable = (sys.executable, "-m", "tests.support.programs.unkillable")
    with a_home(tmp_path / "home", {"North": {**SLEEPER, "stop_timeout_seconds": 0.2}}, make=Host) as home:
        assert isinstance(home, Host)
        daemon = home.start_daemon(program=unkillable)
        pid = home.all_run()["North"]
        done = home.supervisor("stop", "--workers", program=unkillable)
        assert daemon.wait(PATIENCE_SECONDS) == 0
        assert done.returncode == 1
        assert f"Stopped: pid {daemon.pid}; some of its workers couldn't be stopped\n" in done.stdout
        assert f"North is stuck: sleep (pid {pid}, sleeping) couldn't be stopped" in done.stdout
        assert home.everybody() == [pid]
        (worker,) = runtime_file.read(home.state_dir)["workers"].values()
        assert (worker["actual"]["state"], worker["actual"]["pid"]) == ("stuck", pid)


def test_the_bound_that_a_stop_is_told_leaves_time_for_its_slowest_worker(home: Host) -> None:
    daemon = home.start_daemon()
    home.all_run()
    told = ask(str(home.state_dir), {"do": "stop", "workers": True})
    assert told["bound_seconds"] > STOP_TIMEOUT_SECONDS
    assert sorted(told["workers"]) == ["North", "South"]
    assert daemon.wait(told["bound_seconds"]) == 0
    assert home.everybody() == []


def test_a_service_slow_to_end_is_named_and_ended_at_the_bound_and_the_exit_code_is_1(home: Host) -> None:
    daemon = home.start_daemon(program=with_service(home, "slow"))
    pids = home.all_run()
    ask(str(home.state_dir), {"do": "stop"})
    assert daemon.wait(PATIENCE_SECONDS) == 1
    assert "service heartbeat didn't stop within 1 s and is cancelled" in home.log()
    assert runtime_file.read(home.state_dir)["running"] is False
    assert daemon_holder(home.state_dir) is None
    assert set(pids.values()) <= set(home.everybody()), "the workers go on"


def heartbeat(home: Host) -> dict[str, Any]:
    return next(service for service in home.status()["services"] if service["name"] == "heartbeat")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises at once", "OSError: [Errno 28] No space left on device"),
        ("raises after a while", "KeyError: 'a mistake'"),
    ],
)
def test_a_service_that_raises_degrades_the_whole_visibly_and_comes_back(home: Host, how: str, words: str) -> None:
    home.start_daemon(program=with_service(home, how), wait=False)
    wait_until(lambda: home.state_dir.is_dir() and daemon_holder(home.state_dir), PATIENCE_SECONDS, "it owns the place")
    wait_until(lambda: answers(home), PATIENCE_SECONDS, "it answers")
    if how == "raises after a while":
        assert home.supervisor("status").returncode == 0
        (home.folder / "now").touch()
    wait_until(lambda: heartbeat(home)["state"] == "error", PATIENCE_SECONDS, "it is seen")
    shown = heartbeat(home)
    assert (shown["health"], shown["last_error"]) == ("degraded", words)
    assert re.fullmatch(r"failed; retrying in \d+ s", shown["reason"])
    status = home.supervisor("status", "--json")
    assert (status.returncode, json.loads(status.stdout)["healthy"]) == (1, False)
    others = [each for each in home.status()["services"] if each["name"] != "heartbeat" and each["state"] != "disabled"]
    assert {each["state"] for each in others} == {"running"}
    assert home.json("send", "pause North", "--wait")["success"], "the rest goes on"
    wait_until(lambda: "retrying in 4 s" in heartbeat(home)["reason"], PATIENCE_SECONDS, "it is tried again")
    (home.folder / "cured").touch()
    wait_until(lambda: heartbeat(home)["health"] == "healthy", PATIENCE_SECONDS, "it is well again")
    wait_until(lambda: home.supervisor("status").returncode == 0, PATIENCE_SECONDS, "and so is the whole")


def test_a_stop_that_can_not_end_the_daemon_is_1_and_the_state_keeps_saying_running(home: Host) -> None:
    home.started()
    program = home.folder / "unkillable.py"
    program.write_text(UNKILLABLE)
    done = home.supervisor("stop", program=(sys.executable, str(program)))
    assert done.returncode == 1
    assert f"The daemon (pid {home.daemon()}) couldn't be stopped" in done.stderr
    assert "stopped" not in done.stdout
    assert runtime_file.read(home.state_dir)["running"] is True
    status = home.supervisor("status", "--plain")
    assert (status.returncode, "supervisor.state=running\n" in status.stdout) == (0, True)


UNKILLABLE = """
import sys
from supervisor_core.cli import main
from supervisor_core.daemon.control import lifecycle

def deaf(state_dir, question, **_):
    raise lifecycle.UnresponsiveError

# A process that hangs inside the kernel hears nothing and survives all.
lifecycle.ask = deaf
lifecycle.send = lambda daemon, number: None
lifecycle.TERM_SECONDS = lifecycle.KILL_SECONDS = 0.2
sys.exit(main(sys.argv[1:]))
"""


def in_process(home: Host, story: Callable[[Application], Any]) -> int:
    """A whole daemon in this very process, where one can look for what it leaves behind."""
    config = load_supervisor_config(home.config, environ={"PATH": os.environ["PATH"]})
    prepare_state_dir(config)
    with ExitStack() as open_things:
        ledger = open_things.enter_context(opened_ledger(config))
        loops: list[asyncio.AbstractEventLoop] = []

        async def life() -> int:
            loops.append(asyncio.get_running_loop())
            daemon = Application(DaemonContext(open_doors(config), ledger))
            telling = asyncio.create_task(story(daemon))
            code = await daemon.run()
            await telling
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert left == [], "no task is left"
            return code

        code = asyncio.run(life(), debug=True)
        assert all(loop.is_closed() for loop in loops)
    return code


def test_nothing_is_left_of_a_daemon_in_its_process_neither_a_task_nor_a_thread_that_works(home: Host) -> None:
    before = set(threading.enumerate())

    async def story(_daemon: Application) -> None:
        await asyncio.to_thread(wait_until, lambda: answers(home), PATIENCE_SECONDS, "its workers run")
        await asyncio.to_thread(ask, str(home.state_dir), {"do": "stop", "workers": True})

    assert in_process(home, story) == 0
    assert home.everybody() == []
    wait_until(lambda: working(before) == [], PATIENCE_SECONDS, "no thread does anything any more")
    assert all(thread.daemon for thread in threading.enumerate() if thread not in before)


def working(before: set[threading.Thread]) -> list[str]:
    """The threads that are new and do something; one of a pool that waits for its next call does nothing."""
    frames = sys._current_frames()  # noqa: SLF001 (public but for its name)
    new = [thread for thread in threading.enumerate() if thread not in before and thread.ident in frames]
    return [thread.name for thread in new if frames[thread.ident or 0].f_code.co_name != "_serve"]


def answers(home: Host) -> bool:
    try:
        return all(worker["state"] == "running" for worker in home.status()["workers"])
    except (NotRunningError, UnresponsiveError):
        return False
