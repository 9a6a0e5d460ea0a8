"""Starting workers: real processes, what they get, what they do not inherit, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.host.locks import FileLock
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE, ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state
from supervisor_core.host.process_facts.signals import KILL, send, wait_ended
from supervisor_core.processes import children
from supervisor_core.processes.finding import Presence, scan_processes
from supervisor_core.processes.launch import LaunchError, LaunchSpec
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.records import generation_prefix, read_record, record_path
from tests.support.homes import ROOT
from tests.support.processes.worker_outputs import without_start_lines
from tests.support.waiting import wait_until

PYTHON = sys.executable
ID = "OrionMX"
ENV = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}

IDLE = "import time; print('ready', flush=True); time.sleep(60)"


class Home:
    """A state folder, its door, and workers written as lines of Python; `end` leaves none of them behind."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = folder / "var"
        self.state_dir.mkdir(mode=0o700)
        self.folder = folder
        self.log = folder / "logs" / "worker.log"
        self.log.parent.mkdir()
        self.door = HostProcesses(self.state_dir)
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
        return without_start_lines(self.log.read_text()) if self.log.exists() else ""

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
            "from supervisor_core.processes.manager import HostProcesses\n"
            "from supervisor_core.processes.launch import LaunchSpec\n"
            f"door = HostProcesses(Path({str(self.state_dir)!r}))\n"
            f"folder, log = Path({str(self.folder)!r}), Path({str(self.log)!r})\n"
            f"spec = lambda code: LaunchSpec({ID!r}, (sys.executable, '-c', code), folder, {dict(ENV)!r}, log)\n"
        )
        return subprocess.run(
            [PYTHON, "-W", "error", "-c", head + code], capture_output=True, text=True, timeout=60, env=ENV
        )

    def end(self) -> None:
        left = list(self.by_hand)
        for worker_id in self.ids:
            left += [
                member.identity for member in scan_processes().members(generation_prefix(self.state_dir, worker_id))
            ]
        for identity in left:
            send(identity, KILL)
        assert wait_ended(left, 10) == ()
        children.reap()


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
    words = "worker_id generation state pid start boot_id started_at command log_path spec_hash order own_log_before"
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
    "no such program on the path": (("no-such-program",), r"no-such-program doesn't exist on the PATH"),
    "no such program": (("/no/such/program",), r"/no/such/program doesn't exist\."),
    "not executable": (("./plain",), r"plain isn't executable"),
    "no interpreter": (("./script",), r"script exists, but the interpreter"),
    "no program at all": (("./text",), r"text isn't a program"),
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
    with pytest.raises(LaunchError, match=r"doesn't exist: .*nowhere"):
        home.door.start(spec)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("away/logs/worker.log", "No such file"),
        ("link", "symbolic link"),
        ("fifo", "can't be opened|isn't a regular file"),
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
        with pytest.raises(UsageError, match="isn't a worker id"):
            call(worker_id)


def test_a_second_copy_is_refused(home: Home) -> None:
    identity = home.start(IDLE)
    with pytest.raises(RefusedError, match=rf"is already running \(pid {identity.pid}\)"):
        home.door.start(home.python(IDLE))
    assert home.door.find(ID).identity == identity


def test_of_many_starts_at_once_exactly_one_succeeds(home: Home) -> None:
    starter = (
        "import sys; from pathlib import Path\n"
        "from supervisor_core.processes.manager import HostProcesses\n"
        "from supervisor_core.processes.launch import LaunchSpec\n"
        "from supervisor_core.common.errors import RefusedError\n"
        "state_dir, folder, log, code = sys.argv[1:]\n"
        f"spec = LaunchSpec({ID!r}, (sys.executable, '-c', code), Path(folder), {{}}, Path(log))\n"
        "try: HostProcesses(Path(state_dir)).start(spec)\n"
        "except RefusedError: sys.exit(3)\n"
    )
    arguments = [str(home.state_dir), str(home.folder), str(home.log), IDLE]
    runs = [subprocess.Popen([PYTHON, "-c", starter, *arguments], env=ENV) for _ in range(5)]
    assert sorted(run.wait(60) for run in runs) == [0, 3, 3, 3, 3]
    assert len(home.door.members(ID)) == 1
