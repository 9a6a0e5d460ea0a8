"""Starting workers and finding them again: real processes, and everything that may have gone wrong before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor_core.adapters.locks import FileLock
from supervisor_core.adapters.processes import Processes
from supervisor_core.adapters.processes_find import Presence
from supervisor_core.adapters.processes_identity import identify, platform, state
from supervisor_core.adapters.processes_launch import LaunchError, LaunchSpec
from supervisor_core.adapters.processes_records import (
    STARTING,
    WorkerRecord,
    new_generation,
    place_of,
    read_record,
    record_path,
    write_record,
)
from supervisor_core.adapters.processes_set import process_set
from supervisor_core.adapters.processes_signals import KILL, send, wait_ended
from supervisor_core.adapters.processes_values import GENERATION_VARIABLE, Life, ProcessIdentity
from supervisor_core.domain.errors import RefusedError, UsageError
from tests.support.waiting import wait_until

PYTHON = sys.executable
ID = "OrionMX"
ENV = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}

IDLE = "import time; print('ready', flush=True); time.sleep(60)"


class Home:
    """A state folder, its door, and workers written as lines of Python; `end` leaves none of them behind."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = folder / "var"
        self.state_dir.mkdir(mode=0o700)
        self.folder = folder
        self.log = folder / "logs" / "worker.log"
        self.log.parent.mkdir()
        self.door = Processes(self.state_dir)
        self.ids = {ID}
        self.by_hand: list[ProcessIdentity] = []

    def spec(self, *command: str, worker_id: str = ID) -> LaunchSpec:
        self.ids.add(worker_id)
        return LaunchSpec(worker_id, command, self.folder, ENV, self.log)

    def python(self, code: str) -> LaunchSpec:
        return self.spec(PYTHON, "-c", code)

    def start(self, code: str) -> ProcessIdentity:
        """Start a worker and wait until it says that it is ready."""
        identity = self.door.start(self.python(code)).identity
        assert identity is not None
        wait_until(lambda: "ready\n" in self.said(), message="the worker's `ready`")
        return identity

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def named(self, word: str, count: int = 1) -> list[ProcessIdentity]:
        """Identities of the processes that the worker announced with `word PID`."""

        def announced() -> list[int]:
            lines = [line.split() for line in self.said().splitlines()]
            return [int(line[1]) for line in lines if len(line) == 2 and line[0] == word]

        wait_until(lambda: len(announced()) >= count, message=f"{count} times `{word} PID`")
        found = [identify(pid) for pid in announced()]
        return [identity for identity in found if identity is not None]

    def by_another_process(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run lines of Python that know `door` and `spec`, in a program of its own."""
        head = (
            "import sys, os\nfrom pathlib import Path\n"
            "from supervisor_core.adapters.processes import Processes\n"
            "from supervisor_core.adapters.processes_launch import LaunchSpec\n"
            f"door = Processes(Path({str(self.state_dir)!r}))\n"
            f"folder, log = Path({str(self.folder)!r}), Path({str(self.log)!r})\n"
            f"spec = lambda code: LaunchSpec({ID!r}, (sys.executable, '-c', code), folder, {ENV!r}, log)\n"
        )
        return subprocess.run(
            [PYTHON, "-W", "error", "-c", head + code], capture_output=True, text=True, timeout=60, env=ENV
        )

    def end(self) -> None:
        left = list(self.by_hand)
        for worker_id in self.ids:
            left += [member.identity for member in process_set(place_of(self.state_dir, worker_id))]
        for identity in left:
            send(identity, KILL)
        assert wait_ended(left, 10) == ()
        self.door.reap()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.end()


def test_a_worker_runs_and_its_record_names_exactly_it(home: Home) -> None:
    identity = home.start(IDLE)
    record = read_record(home.state_dir, ID)
    assert record is not None
    assert record.identity == identity == identify(identity.pid)
    assert record.state == "running"
    assert home.door.find(ID).identity == identity
    assert record_path(home.state_dir, ID).stat().st_mode & 0o777 == 0o600
    assert record_path(home.state_dir, ID).parent.stat().st_mode & 0o777 == 0o700
    document = json.loads(record_path(home.state_dir, ID).read_text())
    words = "worker_id generation state pid start boot_id started_at command log_path spec_hash"
    assert set(document) == set(words.split())


def test_it_gets_the_environment_given_and_the_generation_and_nothing_else(home: Home) -> None:
    home.door.start(home.spec("/usr/bin/env"))
    wait_until(lambda: GENERATION_VARIABLE in home.said())
    got = dict(line.partition("=")[::2] for line in home.said().splitlines())
    record = read_record(home.state_dir, ID)
    assert record is not None
    assert got == {**ENV, GENERATION_VARIABLE: record.generation}


def test_it_leads_a_session_of_its_own_reads_nothing_and_writes_both_outputs_to_the_log(home: Home) -> None:
    code = (
        "import os, sys, time\n"
        "print('session', os.getsid(0) == os.getpid()); print('input', repr(sys.stdin.read()))\n"
        "sys.stdout.flush(); print('to stderr', file=sys.stderr); print('ready', flush=True); time.sleep(60)"
    )
    home.start(code)
    assert home.said() == "session True\ninput ''\nto stderr\nready\n"


def test_it_inherits_no_file_and_no_lock(home: Home) -> None:
    code = f"import os; os.set_inheritable(0, True); print(sorted(os.listdir('/proc/self/fd'))); {IDLE}"
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        with FileLock(home.folder / "supervisor.lock"):
            home.start(code)
        with FileLock(home.folder / "supervisor.lock") as again:
            assert again.held
    finally:
        os.close(reading)
        os.close(writing)
    assert home.said().splitlines()[0] == "['0', '1', '2', '3']"  # 3 is the folder being listed


def test_the_log_is_appended_to_and_may_be_cut_while_it_runs(home: Home) -> None:
    home.log.write_text("before\n")
    go = home.folder / "go"
    code = (
        "import os, time; print('ready', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        "print('after', flush=True); time.sleep(60)"
    )
    home.start(code)
    assert home.said() == "before\nready\n"
    os.truncate(home.log, 0)
    go.touch()
    wait_until(lambda: home.said() == "after\n", message="a line at the beginning of the cut log")


def test_its_output_goes_on_after_whoever_started_it_is_dead_and_another_stops_it(home: Home) -> None:
    go = home.folder / "go"
    code = (
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        "print('still here', flush=True); time.sleep(60)"
    )
    run = home.by_another_process(f"print(door.start(spec({code!r})).identity.pid)")
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""  # a worker left running is no cause for a warning
    go.touch()
    wait_until(lambda: "still here" in home.said())
    found = home.door.find(ID)
    assert found.identity is not None
    assert found.identity.pid == int(run.stdout)
    assert not found.adopted
    report = home.door.stop(ID, timeout=10)
    assert (report.state, report.ending, report.exit_code) == ("stopped", "graceful", None)
    assert state(found.identity).ended


FAILURES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such program on the path": (("no-such-program",), r"there is no no-such-program on the PATH"),
    "no such program": (("/no/such/program",), r"there is no /no/such/program"),
    "not executable": (("./plain",), r"plain may not be executed"),
    "no interpreter": (("./script",), r"script exists, but the interpreter"),
    "no program at all": (("./text",), r"text is no program"),
    "no command": ((), r"has no command"),
    "a zero byte": ((PYTHON, "a\0b"), r"null byte"),
}


@pytest.mark.parametrize(("command", "words"), FAILURES.values(), ids=list(FAILURES))
def test_what_can_not_be_started_is_named_and_leaves_no_record(
    home: Home, command: tuple[str, ...], words: str
) -> None:
    (home.folder / "plain").write_text("#!/bin/sh\n")
    for name, first in (("script", "#!/no/such/interpreter\n"), ("text", "no program\n")):
        (home.folder / name).write_text(first)
        (home.folder / name).chmod(0o755)
    with pytest.raises(LaunchError, match=words):
        home.door.start(home.spec(*command))
    assert home.door.find(ID).presence is Presence.STOPPED
    assert not record_path(home.state_dir, ID).exists()


def test_a_missing_folder_is_named(home: Home) -> None:
    spec = LaunchSpec(ID, (PYTHON,), home.folder / "nowhere", ENV, home.log)
    with pytest.raises(LaunchError, match=r"nowhere, in which worker OrionMX is to run, does not exist"):
        home.door.start(spec)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("away/logs/worker.log", "No such file"),
        ("link", "symbolic link"),
        ("fifo", "can't be opened|no regular"),
    ],
)
def test_a_log_that_can_not_be_written_is_named_and_nothing_is_started(home: Home, log: str, words: str) -> None:
    (home.folder / "link").symlink_to(home.folder / "elsewhere")
    os.mkfifo(home.folder / "fifo")
    with pytest.raises(LaunchError, match=words):
        home.door.start(LaunchSpec(ID, (PYTHON, "-c", IDLE), home.folder, ENV, home.folder / log))
    assert not (home.folder / "away").exists()
    assert home.door.find(ID).presence is Presence.STOPPED


@pytest.mark.parametrize("worker_id", ["", "../x", "a/b", ".hidden", "a\n", "x" * 65])
def test_an_id_that_could_lead_elsewhere_is_refused(home: Home, worker_id: str) -> None:
    for call in (home.door.find, home.door.stop):
        with pytest.raises(UsageError, match="is no worker id"):
            call(worker_id)


def test_a_second_copy_is_refused(home: Home) -> None:
    identity = home.start(IDLE)
    with pytest.raises(RefusedError, match=f"runs already, as pid {identity.pid}"):
        home.door.start(home.python(IDLE))
    assert home.door.find(ID).identity == identity


def test_of_many_starts_at_once_exactly_one_succeeds(home: Home) -> None:
    starter = (
        "import sys; from pathlib import Path\n"
        "from supervisor_core.adapters.processes import Processes\n"
        "from supervisor_core.adapters.processes_launch import LaunchSpec\n"
        "from supervisor_core.domain.errors import RefusedError\n"
        "state_dir, folder, log, code = sys.argv[1:]\n"
        f"spec = LaunchSpec({ID!r}, (sys.executable, '-c', code), Path(folder), {{}}, Path(log))\n"
        "try: Processes(Path(state_dir)).start(spec)\n"
        "except RefusedError: sys.exit(3)\n"
    )
    arguments = [str(home.state_dir), str(home.folder), str(home.log), IDLE]
    runs = [subprocess.Popen([PYTHON, "-c", starter, *arguments], env=ENV) for _ in range(5)]
    assert sorted(run.wait(60) for run in runs) == [0, 3, 3, 3, 3]
    assert len(home.door.members(ID)) == 1


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
    pids = wait_until(lambda: process_set(generation), message="the process without a record")
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
    with pytest.raises(RefusedError, match="runs already"):
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
    leaders = [member.identity for member in process_set(generation)]
    home.by_hand += leaders
    first = min(leaders, key=lambda one: (one.start, one.pid))
    assert len(leaders) == 2
    assert home.door.find(ID).identity == first
    assert identity in leaders


def test_a_worker_whose_record_was_lost_is_adopted(home: Home) -> None:
    identity = home.start(IDLE)
    record_path(home.state_dir, ID).unlink()
    with pytest.raises(RefusedError, match="runs already"):
        home.door.start(home.python(IDLE))
    assert home.door.find(ID).identity == identity


def test_the_same_worker_of_another_installation_is_not_taken_for_ours(home: Home, tmp_path: Path) -> None:
    home.start(IDLE)
    (tmp_path / "other").mkdir()
    other = Processes(tmp_path / "other")
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
    with pytest.raises(RefusedError, match="is not stopped"):
        home.door.stop(ID)
    assert state(identity) is Life.ALIVE


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
    assert state(before) is Life.GONE
    assert home.door.find(ID).presence is Presence.STOPPED
    assert home.door.stop(ID).ending == "nothing"
    assert send(before, signal.SIGKILL) is False
    assert state(stranger) is Life.ALIVE


def test_a_record_of_another_boot_means_nobody(home: Home, stranger: ProcessIdentity) -> None:
    before = stranger._replace(boot_id="00000000-0000-0000-0000-000000000000")
    write_record(home.state_dir, WorkerRecord(ID, new_generation(home.state_dir, ID), "running", identity=before))
    assert home.door.find(ID).presence is Presence.STOPPED
    assert home.door.stop(ID).ending == "nothing"
    assert state(stranger) is Life.ALIVE


def test_a_record_that_names_no_boot_can_not_be_verified(home: Home) -> None:
    identity = home.start(IDLE)
    change_record(home, boot_id="")
    assert home.door.find(ID).presence is Presence.UNVERIFIABLE
    with pytest.raises(RefusedError):
        home.door.stop(ID)
    assert state(identity) is Life.ALIVE


def test_what_the_system_does_not_tell_is_unverifiable_and_never_dead(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = home.start(IDLE)

    def refuse(pid: int) -> None:
        raise PermissionError(1, "not shown")

    with monkeypatch.context() as patch:
        patch.setattr(platform, "facts", refuse)
        assert state(identity) is Life.UNVERIFIABLE
        assert home.door.find(ID).presence is Presence.UNVERIFIABLE
        with pytest.raises(RefusedError, match="does not tell"):
            home.door.stop(ID)
        with pytest.raises(RefusedError, match="may be running"):
            home.door.start(home.python(IDLE))
        with pytest.raises(PermissionError):
            send(identity, signal.SIGKILL)
        assert wait_ended([identity], 0) == (identity,)
    assert state(identity) is Life.ALIVE


def test_a_zombie_is_not_alive(home: Home) -> None:
    identity = home.start("print('ready', flush=True)")
    wait_until(lambda: state(identity) is Life.ZOMBIE, message="the end of a worker that nobody has reaped")
    assert home.door.find(ID).presence is Presence.STOPPED
    assert home.door.wait_exit(identity, 0)
    assert [(exited.identity, exited.code) for exited in home.door.reap() if exited.identity == identity] == [
        (identity, 0)
    ]
    assert state(identity) is Life.GONE


def test_an_exit_is_told_once_with_its_code_or_signal(home: Home) -> None:
    first = home.start("print('ready', flush=True); raise SystemExit(7)")
    assert home.door.wait_exit(first, 10)
    assert home.door.exit_code(first) == 7
    assert [exited.code for exited in home.door.reap() if exited.identity == first] == [7]
    assert [exited for exited in home.door.reap() if exited.identity == first] == []
    second = home.start(IDLE)
    os.kill(second.pid, signal.SIGKILL)
    assert home.door.wait_exit(second, 10)
    assert [exited.code for exited in home.door.reap() if exited.identity == second] == [-9]


def test_an_exit_code_that_somebody_else_took_is_unknown_and_not_zero(home: Home) -> None:
    identity = home.start("print('ready', flush=True); raise SystemExit(7)")
    assert os.waitpid(identity.pid, 0)[0] == identity.pid
    assert home.door.exit_code(identity) is None
    assert [exited.code for exited in home.door.reap() if exited.identity == identity] == [None]


def test_a_frozen_process_is_alive_and_said_to_be_frozen(home: Home) -> None:
    identity = home.start(IDLE)
    os.kill(identity.pid, signal.SIGSTOP)
    wait_until(lambda: state(identity) is Life.FROZEN)
    found = home.door.find(ID)
    assert (found.presence, found.life) == (Presence.RUNNING, Life.FROZEN)


def test_a_name_full_of_parentheses_does_not_shift_the_facts(home: Home) -> None:
    code = f"open('/proc/self/comm', 'w').write('a) R 1 (b c) Z'); {IDLE}"
    identity = home.start(code)
    facts = platform.facts(identity.pid)
    assert facts is not None
    assert (facts.name, facts.session, facts.ppid) == ("a) R 1 (b c) Z", identity.pid, os.getpid())
    assert state(identity) is Life.ALIVE


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
    assert state(identity) is Life.ALIVE
    assert not home.door.wait_exit(identity, 0)
    assert home.door.stop(ID, timeout=10).stopped


def test_waiting_for_an_exit_that_does_not_come_ends_in_time_and_says_so(home: Home) -> None:
    identity = home.start(IDLE)
    begun = time.monotonic()
    assert not home.door.wait_exit(identity, 0.05)
    assert 0.04 < time.monotonic() - begun < 5


def test_to_verify_a_worker_needs_no_heavy_import() -> None:
    code = (
        "import sys\nimport supervisor_core.adapters.processes\n"
        "heavy = {'psutil', 'subprocess', 'dataclasses', 'asyncio', 'sqlalchemy'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    run = subprocess.run([PYTHON, "-S", "-c", code], capture_output=True, text=True, env=ENV, timeout=30)
    assert run.returncode == 0, run.stderr
