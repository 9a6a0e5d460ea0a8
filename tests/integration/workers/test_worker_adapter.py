"""What the adapter to this host's workers promises."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.processes import stopping as processes_stop
from supervisor_core.processes.finding import Presence
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.records import record_path
from supervisor_core.workers.adapter import ProcessWorkerAdapter, WorkerEnded
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.homes import ROOT

HEARD_SECONDS = 10.0
STARTED_BY_ANOTHER = """
import sys
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.worker import start_watcher
from supervisor_core.config.load import load_supervisor_config
host = open_doors(load_supervisor_config(sys.argv[1]))
start_watcher(host, host.config.worker(sys.argv[2]))
"""
TEXT = """
nas: {root: nas, layout: cornerstone}
workers:
  OrionMX: {command: [sh, -c, "until test -e go; do sleep 0.02; done; exit 3"], start_grace_seconds: 0.05}
  Second: {command: [sleep, '1000'], start_grace_seconds: 0.05}
  Third: {command: [sleep, '1000'], start_grace_seconds: 0.05}
  Broken: {command: [/no/such/program], start_grace_seconds: 0.05}
  Resting: {command: [sleep, '1000'], enabled: false}
  Locked: {command: [sleep, '1000'], quarantined: true}
"""


def configured(folder: Path) -> SupervisorConfig:
    (folder / "config.yaml").write_text(TEXT)
    return load_supervisor_config(folder / "config.yaml", environ={"PATH": os.environ["PATH"]})


class Stage:
    """The adapter to real processes, and a hand on the workers behind it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "nas").mkdir()
        (folder / "var").mkdir(mode=0o700)
        self.config = configured(folder)
        self.folder = folder
        self.patch = monkeypatch
        self.hidden: dict[Path, bytes] = {}
        host = open_doors(self.config)
        self.processes = host.processes
        self.adapter = ProcessWorkerAdapter(DaemonContext(host))

    def add(self, *worker_ids: str) -> None:
        """Add workers of the configuration."""
        for worker_id in worker_ids:
            self.adapter.add(self.config.worker(worker_id))

    def hears(self) -> queue.SimpleQueue[WorkerEnded]:
        """A new subscriber, and what it hears."""
        heard: queue.SimpleQueue[WorkerEnded] = queue.SimpleQueue()
        self.adapter.subscribe(heard.put)
        return heard

    def kill(self, identity: ProcessIdentity, worker_id: str) -> None:
        """Its process is killed by somebody."""
        assert self.processes.find(worker_id).identity == identity
        os.kill(identity.pid, signal.SIGKILL)

    def let_end(self) -> None:
        """OrionMX ends by itself with exit code 3."""
        (self.folder / "go").touch()

    def start_elsewhere(self, worker_id: str) -> None:
        """Another program starts it."""
        words = [sys.executable, "-c", STARTED_BY_ANOTHER, str(self.config.path), worker_id]
        subprocess.run(words, check=True, timeout=60, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)})

    def nothing_dies(self, *, is_so: bool) -> None:
        """Even being killed ends no process."""
        if not is_so:
            self.patch.undo()
            return
        self.patch.setattr(processes_stop, "send", lambda identity, number: True)
        self.patch.setattr(processes_stop, "wait_ended", lambda identities, seconds: tuple(identities))

    def hide(self, worker_id: str) -> None:
        """Nobody can tell any more whether it runs."""
        path = record_path(self.config.state_dir, worker_id)
        self.hidden[path] = path.read_bytes()
        path.write_text("")

    def end(self) -> None:
        """Leave nothing behind."""
        self.adapter.close()
        self.patch.undo()
        for path, record in self.hidden.items():
            path.write_bytes(record)
        for worker_id in self.config.workers:
            assert self.processes.stop(worker_id, timeout=0.1).stopped


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(tmp_path, monkeypatch)
    yield made
    made.end()


def test_a_look_from_before_somebody_else_started_it_does_not_start_a_second_copy(stage: Stage) -> None:
    stage.add("OrionMX")
    looked = stage.adapter.state("OrionMX")
    identity = stage.adapter.start("OrionMX")
    with pytest.raises(RefusedError):
        stage.adapter.start("OrionMX", looked)
    assert stage.adapter.state("OrionMX").identity == identity


def test_what_was_removed_is_ended_and_unknown(stage: Stage) -> None:
    stage.add("OrionMX", "Second")
    heard = stage.hears()
    identity = stage.adapter.start("OrionMX")
    assert stage.adapter.remove("OrionMX").stopped
    assert list(stage.adapter.states()) == ["Second"]
    assert heard.get(timeout=HEARD_SECONDS) == ("OrionMX", identity, -15)
    with pytest.raises(UsageError, match="OrionMX"):
        stage.adapter.state("OrionMX")


def test_what_survives_its_removal_is_named_and_stays_known(stage: Stage) -> None:
    stage.add("Second")
    identity = stage.adapter.start("Second")
    stage.nothing_dies(is_so=True)
    report = stage.adapter.remove("Second")
    assert [member.identity for member in report.survivors] == [identity]
    assert stage.adapter.state("Second").stuck
    stage.nothing_dies(is_so=False)
    assert stage.adapter.remove("Second").stopped
    assert stage.adapter.states() == {}


def test_a_worker_that_was_never_added_is_a_mistake_that_names_the_nearest(stage: Stage) -> None:
    stage.add("OrionMX")
    for call in (stage.adapter.start, stage.adapter.stop, stage.adapter.remove, stage.adapter.state):
        with pytest.raises(UsageError, match="Did you mean OrionMX"):
            call("OrionMY")


def test_new_settings_count_from_then_on(stage: Stage) -> None:
    stage.add("Third")
    changed = structs.replace(stage.config.worker("Third"), command=("sleep", "2000"))
    stage.adapter.add(changed)
    stage.adapter.start("Third")
    record = stage.adapter.state("Third").record
    assert record is not None
    assert record.command == ("sleep", "2000")
    assert list(stage.adapter.states()) == ["Third"]


def test_one_that_nobody_can_verify_is_neither_started_nor_stopped_nor_forgotten(stage: Stage) -> None:
    stage.add("Second")
    stage.adapter.start("Second")
    stage.hide("Second")
    assert stage.adapter.states()["Second"].presence is Presence.UNVERIFIABLE
    for call in (stage.adapter.start, stage.adapter.stop, stage.adapter.remove):
        with pytest.raises(RefusedError):
            call("Second")
    assert list(stage.adapter.states()) == ["Second"]


def test_all_that_do_not_run_are_started_and_one_that_fails_keeps_no_other(stage: Stage) -> None:
    stage.add("OrionMX", "Broken", "Second", "Third", "Resting", "Locked")
    stage.adapter.start("OrionMX")
    came = stage.adapter.start_all()
    assert list(came) == ["Broken", "Second", "Third"]
    assert isinstance(came["Broken"], LaunchError)
    found = stage.adapter.states()
    assert [found[worker_id].identity for worker_id in ("Second", "Third")] == [came["Second"], came["Third"]]
    assert {worker_id for worker_id, one in found.items() if one.identity} == {"OrionMX", "Second", "Third"}


def test_every_subscriber_hears_of_an_exit_once_with_its_code(stage: Stage) -> None:
    stage.add("OrionMX", "Second")
    one, other = stage.hears(), stage.hears()
    first, second = stage.adapter.start("OrionMX"), stage.adapter.start("Second")
    stage.adapter.states()
    stage.let_end()
    for heard in (one, other):
        assert heard.get(timeout=HEARD_SECONDS) == ("OrionMX", first, 3)
    stage.adapter.states()
    stage.kill(second, "Second")
    for heard in (one, other):
        assert heard.get(timeout=HEARD_SECONDS) == ("Second", second, -9)
        assert heard.empty()


def test_one_that_another_program_started_is_heard_of_once_it_was_looked_at(stage: Stage) -> None:
    stage.add("Second")
    heard = stage.hears()
    stage.start_elsewhere("Second")
    found = stage.adapter.state("Second")
    assert found.identity is not None
    stage.kill(found.identity, "Second")
    assert heard.get(timeout=HEARD_SECONDS) == ("Second", found.identity, None)
    assert stage.adapter.state("Second").presence is Presence.STOPPED


def test_a_start_that_finds_it_running_hears_of_its_exit_as_well(stage: Stage) -> None:
    stage.add("Second")
    heard = stage.hears()
    stage.start_elsewhere("Second")
    with pytest.raises(RefusedError):
        stage.adapter.start("Second")
    found = stage.adapter.state("Second").identity
    assert found is not None
    stage.kill(found, "Second")
    assert heard.get(timeout=HEARD_SECONDS).identity == found


def test_who_has_unsubscribed_hears_no_more(stage: Stage) -> None:
    stage.add("Second")
    gone: list[WorkerEnded] = []
    subscription = stage.adapter.subscribe(gone.append)
    heard = stage.hears()
    stage.adapter.unsubscribe(subscription)
    stage.adapter.unsubscribe(subscription)
    stage.kill(stage.adapter.start("Second"), "Second")
    assert heard.get(timeout=HEARD_SECONDS).worker_id == "Second"
    assert gone == []


def test_a_subscriber_that_raises_is_logged_and_keeps_no_other_from_hearing(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(ended: WorkerEnded) -> None:
        raise ValueError("no ears")

    stage.add("Second", "Third")
    stage.adapter.subscribe(raises)
    heard = stage.hears()
    for worker_id in ("Second", "Third"):
        stage.kill(stage.adapter.start(worker_id), worker_id)
        assert heard.get(timeout=HEARD_SECONDS).worker_id == worker_id
    assert "no ears" in caplog.text


def test_closed_it_tells_nothing_leaves_the_workers_and_answers_nobody(stage: Stage) -> None:
    stage.add("Second")
    heard = stage.hears()
    identity = stage.adapter.start("Second")
    stage.adapter.close()
    stage.adapter.close()
    stage.kill(identity, "Second")  # which also says that it was there
    assert not any(thread.name == "exits" for thread in threading.enumerate())
    assert heard.empty()
    for call in (stage.adapter.start, stage.adapter.stop, stage.adapter.remove, stage.adapter.state):
        with pytest.raises(RefusedError, match="shutting down"):
            call("Second")
    with pytest.raises(RefusedError, match="shutting down"):
        stage.adapter.subscribe(heard.put)
    with pytest.raises(RefusedError, match="shutting down"):
        stage.adapter.add(stage.config.worker("Third"))
