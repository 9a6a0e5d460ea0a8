"""Finding workers again: after kill -9, lost records, other boots, reused PIDs; and what is known of a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from supervisor_core.common.errors import RefusedError
from supervisor_core.host.process_facts import identity as process_identity
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE, Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state
from supervisor_core.host.process_facts.signals import send, wait_ended
from supervisor_core.processes import children
from supervisor_core.processes.finding import Presence, scan_processes
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.records import (
    STARTING,
    WorkerRecord,
    new_generation,
    read_record,
    record_path,
    write_record,
)
from tests.integration.processes.test_processes_start import ENV, ID, IDLE, PYTHON, Home
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.end()


def by_hand(home: Home, generation: str, code: str = IDLE) -> ProcessIdentity:
    """A worker's process as `start` makes it, without anybody to write its record."""
    with home.log.open("ab") as log:
        child = subprocess.Popen(
            [PYTHON, "-c", f"import os; os.posix_spawn(*{_spawned(code)!r}, os.environ, setsid=True)"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            env={**ENV, GENERATION_VARIABLE: generation},
        )
    assert child.wait(20) == 0  # the starter is dead now
    pids = wait_until(lambda: scan_processes().members(generation), message="the process without a record")
    wait_until(lambda: "ready\n" in home.said())
    home.by_hand.append(pids[0].identity)
    return pids[0].identity


def _spawned(code: str) -> tuple[str, list[str]]:
    return PYTHON, [PYTHON, "-c", code]


def test_a_worker_whose_starter_was_killed_before_it_wrote_the_record_is_adopted(home: Home) -> None:
    generation = new_generation(home.state_dir, ID)
    write_record(home.state_dir, WorkerRecord(ID, generation, STARTING, spec_hash="abc"))
    identity = by_hand(home, generation)
    found = home.door.find(ID)
    assert (found.presence, found.identity, found.adopted) == (Presence.RUNNING, identity, True)
    record = read_record(home.state_dir, ID)
    assert record is not None
    assert (record.state, record.identity, record.spec_hash) == ("running", identity, "abc")
    assert not home.door.find(ID).adopted
    with pytest.raises(RefusedError, match="is already running"):
        home.door.start(home.python(IDLE))
    assert home.door.stop(ID, timeout=10).ending == "graceful"


def test_a_start_finds_what_a_killed_starter_left_and_makes_no_second_copy(home: Home) -> None:
    generation = new_generation(home.state_dir, ID)
    write_record(home.state_dir, WorkerRecord(ID, generation, STARTING))
    identity = by_hand(home, generation)
    with pytest.raises(RefusedError, match=f"pid {identity.pid}"):
        home.door.start(home.python(IDLE))


def test_a_starter_killed_before_the_process_existed_leaves_nothing_in_the_way(home: Home) -> None:
    write_record(home.state_dir, WorkerRecord(ID, new_generation(home.state_dir, ID), STARTING))
    assert home.door.find(ID).presence is Presence.STOPPED
    home.start(IDLE)


def test_the_launched_process_is_adopted_and_not_the_daemon_that_it_started(home: Home) -> None:
    generation = new_generation(home.state_dir, ID)
    write_record(home.state_dir, WorkerRecord(ID, generation, STARTING))
    (home.folder / "daemonize.py").write_text(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
    )
    code = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, {str(home.folder / 'daemonize.py')!r}], check=True)\n{IDLE}"
    )
    identity = by_hand(home, generation, code)
    leaders = [member.identity for member in scan_processes().members(generation)]
    home.by_hand += leaders
    first = min(leaders, key=lambda one: (one.start, one.pid))
    assert len(leaders) == 2
    assert home.door.find(ID).identity == first
    assert identity in leaders


def test_a_worker_whose_record_was_lost_is_adopted(home: Home) -> None:
    identity = home.start(IDLE)
    record_path(home.state_dir, ID).unlink()
    with pytest.raises(RefusedError, match="is already running"):
        home.door.start(home.python(IDLE))
    assert home.door.find(ID).identity == identity


def test_the_same_worker_of_another_installation_is_not_taken_for_ours(home: Home, tmp_path: Path) -> None:
    home.start(IDLE)
    (tmp_path / "other").mkdir()
    other = HostProcesses(tmp_path / "other")
    assert other.find(ID).presence is Presence.STOPPED
    assert other.stop(ID).ending == "nothing"
    assert home.door.find(ID).presence is Presence.RUNNING


BROKEN: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_text('{"worker_id": "Ori'),
    "a list": lambda path: path.write_text("[]"),
    "no process": lambda path: path.write_text(path.read_text().replace('"pid"', '"dip"')),
    "another worker's": lambda path: path.write_text(path.read_text().replace(ID, "OrionMX2")),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=list(BROKEN))
def test_with_a_broken_record_nothing_is_started_and_nothing_signalled(
    home: Home, damage: Callable[[Path], object]
) -> None:
    identity = home.start(IDLE)
    damage(record_path(home.state_dir, ID))
    found = home.door.find(ID)
    assert found.presence is Presence.UNVERIFIABLE
    assert "delete the file" in found.reason
    with pytest.raises(RefusedError, match="may be running"):
        home.door.start(home.python(IDLE))
    with pytest.raises(RefusedError, match="wasn't stopped"):
        home.door.stop(ID)
    assert state(identity) is Liveness.ALIVE


def change_record(home: Home, **changes: object) -> None:
    path = record_path(home.state_dir, ID)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def stranger(home: Home) -> Iterator[ProcessIdentity]:
    """A process that is no worker of ours."""
    child = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    identity = identify(child.pid)
    assert identity is not None
    yield identity
    child.kill()
    child.wait()


def test_a_pid_that_belongs_to_another_process_by_now_is_never_signalled(home: Home, stranger: ProcessIdentity) -> None:
    home.start(IDLE)
    home.door.stop(ID, timeout=10)
    generation = new_generation(home.state_dir, ID)
    before = stranger._replace(start=stranger.start - 1)
    write_record(home.state_dir, WorkerRecord(ID, generation, "running", identity=before))
    assert state(before) is Liveness.GONE
    assert home.door.find(ID).presence is Presence.STOPPED
    assert home.door.stop(ID).ending == "nothing"
    assert send(before, signal.SIGKILL) is False
    assert state(stranger) is Liveness.ALIVE


def test_a_record_of_another_boot_means_nobody(home: Home, stranger: ProcessIdentity) -> None:
    before = stranger._replace(boot_id="00000000-0000-0000-0000-000000000000")
    write_record(home.state_dir, WorkerRecord(ID, new_generation(home.state_dir, ID), "running", identity=before))
    assert home.door.find(ID).presence is Presence.STOPPED
    assert home.door.stop(ID).ending == "nothing"
    assert state(stranger) is Liveness.ALIVE


def test_a_record_that_names_no_boot_can_not_be_verified(home: Home) -> None:
    identity = home.start(IDLE)
    change_record(home, boot_id="")
    assert home.door.find(ID).presence is Presence.UNVERIFIABLE
    with pytest.raises(RefusedError):
        home.door.stop(ID)
    assert state(identity) is Liveness.ALIVE


def test_what_the_system_does_not_tell_is_unverifiable_and_never_dead(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = home.start(IDLE)

    def refuse(pid: int) -> None:
        raise PermissionError(1, "not shown")

    with monkeypatch.context() as patch:
        patch.setattr(process_identity, "process_at", refuse)
        assert state(identity) is Liveness.UNVERIFIABLE
        assert home.door.find(ID).presence is Presence.UNVERIFIABLE
        with pytest.raises(RefusedError, match="doesn't say"):
            home.door.stop(ID)
        with pytest.raises(RefusedError, match="may be running"):
            home.door.start(home.python(IDLE))
        with pytest.raises(PermissionError):
            send(identity, signal.SIGKILL)
        assert wait_ended([identity], 0) == (identity,)
    assert state(identity) is Liveness.ALIVE


def test_a_zombie_is_not_alive(home: Home) -> None:
    identity = home.start("print('ready', flush=True)")
    wait_until(lambda: state(identity) is Liveness.ZOMBIE, message="the end of a worker that nobody has reaped")
    assert home.door.find(ID).presence is Presence.STOPPED
    assert home.door.wait_exit(identity, 0)
    children.reap()
    assert home.door.exit_code(identity) == 0
    assert state(identity) is Liveness.GONE


def test_an_exit_has_its_code_or_signal(home: Home) -> None:
    first = home.start("print('ready', flush=True); raise SystemExit(7)")
    assert home.door.wait_exit(first, 10)
    assert home.door.exit_code(first) == 7
    second = home.start(IDLE)
    os.kill(second.pid, signal.SIGKILL)
    assert home.door.wait_exit(second, 10)
    assert home.door.exit_code(second) == -9


def test_an_exit_code_that_somebody_else_took_is_unknown_and_not_zero(home: Home) -> None:
    identity = home.start("print('ready', flush=True); raise SystemExit(7)")
    assert os.waitpid(identity.pid, 0)[0] == identity.pid
    assert home.door.exit_code(identity) is None


def test_a_frozen_process_is_alive_and_said_to_be_frozen(home: Home) -> None:
    identity = home.start(IDLE)
    os.kill(identity.pid, signal.SIGSTOP)
    wait_until(lambda: state(identity) is Liveness.FROZEN)
    found = home.door.find(ID)
    assert (found.presence, found.life) == (Presence.RUNNING, Liveness.FROZEN)


def test_a_thread_is_no_process(home: Home) -> None:
    code = (
        "import threading, time\n"
        "t = threading.Thread(target=time.sleep, args=(60,), daemon=True); t.start()\n"
        f"print('thread', t.native_id); {IDLE}"
    )
    home.start(code)
    number = int(home.said().split()[1])
    assert Path(f"/proc/{number}/stat").exists()
    assert identify(number) is None


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of a system call is that of this machine")
def test_a_process_whose_first_thread_has_ended_is_no_zombie(home: Home) -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print('ready', flush=True)\n"
        "ctypes.CDLL(None).syscall(60, 0)"
    )
    identity = home.start(code)
    stat = Path(f"/proc/{identity.pid}/stat")
    wait_until(lambda: ") Z " in stat.read_text(), message="the end of the first thread")
    assert state(identity) is Liveness.ALIVE
    assert not home.door.wait_exit(identity, 0)
    assert home.door.stop(ID, timeout=10).stopped


def test_waiting_for_an_exit_that_does_not_come_ends_in_time_and_says_so(home: Home) -> None:
    identity = home.start(IDLE)
    begun = time.monotonic()
    assert not home.door.wait_exit(identity, 0.05)
    assert 0.04 < time.monotonic() - begun < 5


def test_a_process_that_psutil_does_not_see_but_the_kernel_has_is_hidden_and_not_gone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = home.start(IDLE)

    def missing(pid: int) -> psutil.Process:
        raise psutil.NoSuchProcess(pid)

    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "not ours")

    with monkeypatch.context() as patch:
        patch.setattr(psutil, "Process", missing)
        assert state(identity) is Liveness.UNVERIFIABLE
        patch.setattr(os, "kill", refuse)
        assert state(identity) is Liveness.UNVERIFIABLE
        assert wait_ended([identity], 0) == (identity,)
        with pytest.raises(PermissionError):
            send(identity, signal.SIGKILL)


def test_to_verify_a_worker_needs_no_heavy_import() -> None:
    code = (
        "import sys\nimport supervisor_core.processes.manager\n"
        "heavy = {'psutil', 'subprocess', 'dataclasses', 'asyncio', 'sqlalchemy'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    run = subprocess.run([PYTHON, "-S", "-c", code], capture_output=True, text=True, env=ENV, timeout=30)
    assert run.returncode == 0, run.stderr
