"""Ending workers: whatever they started and wherever it went, stopped means that nobody is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.errors import RefusedError
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE, Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state
from supervisor_core.host.process_facts.signals import send
from supervisor_core.processes import stopping as processes_stop
from supervisor_core.processes.finding import Presence, scan_processes
from supervisor_core.processes.records import read_record, record_path
from tests.integration.processes.test_processes_start import ENV, ID, IDLE, Home
from tests.support.waiting import wait_until

POLITE = """
import signal, sys, time
def asked(number, frame):
    print("asked", number, flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, asked)
signal.signal(signal.SIGUSR1, asked)
print("ready", flush=True)
time.sleep(60)
"""

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""

# Starts a child of a child that ignores TERM; the worker itself ends when asked.
GRANDCHILD = """
import os, signal, time
if os.fork() == 0:
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("grandchild", os.getpid(), flush=True)
        print("ready", flush=True)
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""

# The classic daemon: a session of its own, its parent gone, deaf to TERM. Ready means that there are just these two.
DAEMON = """
import os, signal, time
heard, told = os.pipe()
middle = os.fork()
if middle == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("daemon", os.getpid(), flush=True)
        os.write(told, b".")
        time.sleep(60)
    os._exit(0)
os.waitpid(middle, 0)
os.read(heard, 1)
print("ready", flush=True)
time.sleep(60)
"""

# A daemon that carries no generation any more: only that it was a child when we first looked gives it away.
SCRUBBED = """
import subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
     "print('ready', flush=True); time.sleep(60)"], env={}, start_new_session=True)
print("scrubbed", child.pid, flush=True)
time.sleep(60)
"""

# A process that never stays: it forks, ends, and lives on as its child, hundreds of times a second.
RUNNER = """
import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        time.sleep(0.002)
        if os.fork():
            os._exit(0)
    os._exit(0)
time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.end()


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody in these tests uses the moment that the rest gets."""
    monkeypatch.setattr(processes_stop, "REST_GRACE_SECONDS", 0.1)


def generation_of(home: Home) -> str:
    record = read_record(home.state_dir, ID)
    assert record is not None
    return record.generation


def test_a_worker_that_obeys_ends_at_once_with_its_exit_code(home: Home) -> None:
    identity = home.start(POLITE)
    report = home.door.stop(ID, timeout=20)
    assert (report.state, report.ending, report.exit_code) == ("stopped", "graceful", 5)
    assert report.killed == report.survivors == ()
    assert report.seconds < 10
    assert state(identity) is Liveness.GONE
    assert not record_path(home.state_dir, ID).exists()
    assert "asked 15" in home.said()


def test_the_configured_signal_is_sent(home: Home) -> None:
    home.start(POLITE)
    assert home.door.stop(ID, stop_signal="USR1", timeout=20).exit_code == 5
    assert f"asked {int(signal.SIGUSR1)}\n" in home.said()


def test_to_stop_what_does_not_run_is_success(home: Home) -> None:
    report = home.door.stop(ID)
    assert (report.state, report.ending, report.killed) == ("stopped", "nothing", ())


@pytest.mark.usefixtures("short_grace")
def test_a_deaf_worker_is_killed_when_its_time_is_over(home: Home) -> None:
    identity = home.start(DEAF)
    report = home.door.stop(ID, timeout=0.2)
    assert (report.state, report.ending, report.exit_code) == ("stopped", "killed", -9)
    assert [member.identity for member in report.killed] == [identity]
    assert report.seconds >= 0.2


def test_one_that_is_deaf_to_the_configured_signal_is_asked_with_term_as_well(home: Home) -> None:
    code = POLITE.replace("signal.signal(signal.SIGUSR1, asked)", "signal.signal(signal.SIGUSR1, signal.SIG_IGN)")
    home.start(code)
    report = home.door.stop(ID, stop_signal="USR1", timeout=0.2)
    assert (report.ending, report.exit_code, report.killed) == ("graceful", 5, ())


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize(("code", "word"), [(GRANDCHILD, "grandchild"), (DAEMON, "daemon"), (SCRUBBED, "scrubbed")])
def test_whatever_it_started_is_ended_as_well(home: Home, code: str, word: str) -> None:
    home.start(code)
    (other,) = home.named(word)
    home.by_hand.append(other)
    assert state(other) is Liveness.ALIVE
    assert other in {member.identity for member in home.door.members(ID)}
    report = home.door.stop(ID, timeout=10)
    assert (report.state, report.ending) == ("stopped", "graceful")
    assert other in {member.identity for member in report.killed}
    assert state(other).ended


@pytest.mark.usefixtures("short_grace")
def test_who_forks_while_being_killed_does_not_get_away(home: Home) -> None:
    home.start(RUNNER)
    generation = generation_of(home)
    report = home.door.stop(ID, timeout=10)
    assert report.state == "stopped", report
    assert report.killed
    assert scan_processes().members(generation) == ()


def test_those_who_obey_have_their_moment_and_are_not_called_killed(home: Home) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    print('helper', os.getpid(), flush=True); print('ready', flush=True)\n"
        "    time.sleep(60); os._exit(0)\n"
        "time.sleep(60)"
    )
    home.start(code)
    (helper,) = home.named("helper")
    report = home.door.stop(ID, timeout=10)
    assert (report.state, report.killed) == ("stopped", ())
    assert state(helper).ended


def test_what_a_crashed_worker_left_is_in_the_way_of_a_start_until_it_is_stopped(home: Home) -> None:
    leader = home.start(DAEMON)
    (daemon,) = home.named("daemon")
    os.kill(leader.pid, signal.SIGKILL)
    assert home.door.wait_exit(leader, 10)
    found = home.door.find(ID)
    assert found.presence is Presence.STOPPED
    assert [member.identity for member in found.leftovers] == [daemon]
    with pytest.raises(RefusedError, match=rf"are still running: .*pid {daemon.pid},"):
        home.door.start(home.python(IDLE))
    report = home.door.stop(ID, timeout=10)
    assert (report.state, report.ending) == ("stopped", "nothing")
    assert [member.identity for member in report.killed] == [daemon]
    home.start(IDLE)


def test_a_frozen_worker_is_woken_and_ends_as_it_was_asked_to(home: Home) -> None:
    identity = home.start(POLITE)
    os.kill(identity.pid, signal.SIGSTOP)
    wait_until(lambda: state(identity) is Liveness.FROZEN)
    report = home.door.stop(ID, timeout=20)
    assert (report.state, report.ending, report.exit_code) == ("stopped", "graceful", 5)


@pytest.mark.usefixtures("short_grace")
def test_a_worker_that_freezes_itself_again_is_killed_when_its_time_is_over(home: Home) -> None:
    code = (
        "import os, signal, time\n"
        "freeze = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)\n"
        "signal.signal(signal.SIGTERM, freeze); signal.signal(signal.SIGCONT, freeze)\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 60\n"
        "while time.monotonic() < end: time.sleep(1)"
    )
    home.start(code)
    report = home.door.stop(ID, timeout=0.3)
    assert (report.state, report.ending) == ("stopped", "killed")


def test_another_process_stops_it_and_the_starter_still_learns_the_exit_code(home: Home) -> None:
    identity = home.start(POLITE)
    run = home.by_another_process(f"report = door.stop({ID!r}, timeout=20); print(report.state, report.exit_code)")
    assert (run.returncode, run.stdout) == (0, "stopped None\n"), run.stderr
    assert home.door.exit_code(identity) == 5


def test_a_worker_can_not_stop_itself_and_lives_on(home: Home) -> None:
    code = (
        "import os, subprocess, sys, time\nfrom pathlib import Path\n"
        "from supervisor_core.processes.manager import HostProcesses\n"
        "from supervisor_core.common.errors import RefusedError\n"
        f"try: HostProcesses(Path({str(home.state_dir)!r})).stop({ID!r}, timeout=1)\n"
        "except RefusedError as error: print(error)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    identity = home.start(code)
    assert "started this program, so this program can't stop it" in home.said()
    assert state(identity) is Liveness.ALIVE


def test_whoever_carries_the_generation_and_stops_it_spares_itself_and_those_above(home: Home) -> None:
    """A daemon that an operator started from a shell of the worker's has inherited its environment."""
    home.start(POLITE)
    inner = (
        "import sys; from pathlib import Path; from supervisor_core.processes.manager import HostProcesses\n"
        f"print(HostProcesses(Path(sys.argv[1])).stop({ID!r}, timeout=20).state)"
    )
    outer = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', *sys.argv[1:]]).returncode)"
    run = subprocess.run(
        [sys.executable, "-c", outer, inner, str(home.state_dir)],
        env={**ENV, GENERATION_VARIABLE: generation_of(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stdout) == (0, "stopped\n"), run.stderr


def test_the_systems_first_process_and_ourselves_are_never_signalled() -> None:
    for pid in (1, os.getpid()):
        identity = identify(pid)
        assert identity is not None
        with pytest.raises(RefusedError, match="never signaled"):
            send(identity, 0)


@pytest.mark.usefixtures("short_grace")
def test_who_can_not_be_ended_is_named_and_the_worker_is_stuck(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.start(GRANDCHILD)
    (grandchild,) = home.named("grandchild")

    def refuse(identity: ProcessIdentity, number: int) -> bool:
        if identity == grandchild:
            raise PermissionError(1, "not ours")
        return send(identity, number)

    monkeypatch.setattr(processes_stop, "KILL_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(processes_stop, "FREEZE_BOUND_SECONDS", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr(processes_stop, "send", refuse)
        report = home.door.stop(ID, timeout=10)
    assert (report.state, report.stopped) == ("stuck", False)
    assert [member.identity for member in report.survivors] == [grandchild]
    assert str(report.survivors[0]).startswith("python")
    assert grandchild not in {member.identity for member in report.killed}
    assert [member.identity for member in home.door.find(ID).leftovers] == [grandchild]
    assert home.door.find(ID).stuck
    with pytest.raises(RefusedError, match=rf"are still running: .*pid {grandchild.pid},"):
        home.door.start(home.python(IDLE))
    assert home.door.stop(ID, timeout=10).stopped


def test_a_start_waits_for_a_slow_stop(home: Home) -> None:
    home.start(POLITE.replace("sys.exit(5)", "time.sleep(0.5); sys.exit(5)"))
    stopping = threading.Thread(target=home.door.stop, args=(ID,))
    stopping.start()
    wait_until(lambda: "asked" in home.said(), message="the worker to be asked")
    second = home.door.start(home.python(IDLE))
    stopping.join()
    assert home.door.find(ID).identity == second.identity
