"""What every door to worker processes promises: the real one with either backend, and the fake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import state
from supervisor_core.processes.claims import Claim, Claimant, ProcessProfile, profile_of
from supervisor_core.processes.fake import FakeProcesses
from supervisor_core.processes.finding import Presence
from supervisor_core.processes.launch import LaunchError, LaunchSpec
from supervisor_core.processes.manager import ProcessManager
from supervisor_core.processes.records import record_path
from tests.integration.processes.test_processes_start import ID, IDLE, Home
from tests.integration.processes.test_processes_stop import DAEMON, DEAF
from tests.support.processes.process_backends import BACKENDS, swapped
from tests.support.waiting import wait_until


class ByHand(NamedTuple):
    """A program that no door started: how it looks, and what its heartbeat would say."""

    profile: ProcessProfile
    claim: Claim

    def claimants(self, door: ProcessManager, *, search: bool = False) -> tuple[Claimant, ...]:
        return door.claimants(ID, self.profile, () if search else (self.claim,), search=search)


class Stage:
    """A door, and a hand on the workers behind it."""

    door: ProcessManager

    def start(self) -> ProcessIdentity:
        """An obedient worker, ready."""
        raise NotImplementedError

    def start_deaf(self) -> ProcessIdentity:
        """One that ignores what it is asked."""
        raise NotImplementedError

    def start_with_helper(self) -> ProcessIdentity:
        """One with a helper that outlives it and ignores what it is asked."""
        raise NotImplementedError

    def start_impossible(self) -> None:
        """One that can't be started."""
        raise NotImplementedError

    def start_by_hand(self) -> ByHand:
        """A program that no door started, and that looks like the worker."""
        raise NotImplementedError

    def die(self) -> None:
        """Its process ends by itself, with signal 9."""
        raise NotImplementedError

    def freeze(self) -> None:
        """Its process is stopped."""
        raise NotImplementedError

    def hide(self) -> None:
        """Nobody can tell any more whether it runs."""
        raise NotImplementedError


class RealStage(Stage):
    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.door = self.home.door
        self.program: subprocess.Popen[bytes] | None = None

    def start(self) -> ProcessIdentity:
        return self.home.start(IDLE)

    def start_deaf(self) -> ProcessIdentity:
        return self.home.start(DEAF)

    def start_with_helper(self) -> ProcessIdentity:
        return self.home.start(DAEMON)

    def start_impossible(self) -> None:
        self.door.start(self.home.spec("/no/such/program"))

    def start_by_hand(self) -> ByHand:
        command = (sys.executable, "-c", "import time; time.sleep(100)")
        self.program = program = subprocess.Popen(command, cwd=self.home.folder)
        wait_until(lambda: "sleep" in Path(f"/proc/{program.pid}/cmdline").read_text())
        profile = profile_of(command, self.home.folder, os.defpath)
        return ByHand(profile, Claim(program.pid, datetime.now(UTC)))

    def die(self) -> None:
        identity = self._identity()
        os.kill(identity.pid, signal.SIGKILL)
        assert self.door.wait_exit(identity, 10)

    def freeze(self) -> None:
        identity = self._identity()
        os.kill(identity.pid, signal.SIGSTOP)
        wait_until(lambda: state(identity) is Liveness.FROZEN)

    def hide(self) -> None:
        record_path(self.home.state_dir, ID).write_text("")

    def _identity(self) -> ProcessIdentity:
        identity = self.door.find(ID).identity
        assert identity is not None
        return identity


class FakeStage(Stage):
    def __init__(self, folder: Path) -> None:
        self.fake = FakeProcesses()
        self.door = self.fake
        self.folder = folder

    def start(self) -> ProcessIdentity:
        identity = self.fake.start(self._spec()).identity
        assert identity is not None
        return identity

    def start_deaf(self) -> ProcessIdentity:
        identity = self.start()
        self.fake.defy(ID)
        return identity

    def start_with_helper(self) -> ProcessIdentity:
        identity = self.start()
        self.fake.help_with(ID)
        return identity

    def start_by_hand(self) -> ByHand:
        command = ("program", "by hand")
        pid = self.fake.start_by_hand(*command).pid
        return ByHand(ProcessProfile(command, str(self.folder), ()), Claim(pid, datetime.now(UTC)))

    def start_impossible(self) -> None:
        self.fake.break_start(ID, "there is no such program")
        self.fake.start(self._spec())

    def die(self) -> None:
        self.fake.die(ID, -9)

    def freeze(self) -> None:
        self.fake.freeze(ID)

    def hide(self) -> None:
        self.fake.hide(ID)

    def _spec(self) -> LaunchSpec:
        return LaunchSpec(ID, ("program",), self.folder, {}, self.folder / "log")


@pytest.fixture(params=[*BACKENDS, "fake"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    if request.param == "fake":
        yield FakeStage(tmp_path)
        return
    with swapped(request.param):
        made = RealStage(tmp_path)
        yield made
        made.home.end()
        if made.program is not None:
            made.program.kill()
            made.program.wait()


def test_a_started_worker_is_found_alive(stage: Stage) -> None:
    identity = stage.start()
    found = stage.door.find(ID)
    assert (found.presence, found.identity, found.life) == (Presence.RUNNING, identity, Liveness.ALIVE)
    assert stage.door.state(identity) is Liveness.ALIVE
    assert stage.door.identify(identity.pid) == identity
    assert stage.door.members(ID)[0].identity == identity
    assert not stage.door.wait_exit(identity, 0)


def test_one_that_was_never_started_is_stopped(stage: Stage) -> None:
    found = stage.door.find(ID)
    assert (found.presence, found.identity, found.leftovers) == (Presence.STOPPED, None, ())
    assert stage.door.members(ID) == ()


def test_a_second_start_is_refused(stage: Stage) -> None:
    identity = stage.start()
    with pytest.raises(RefusedError):
        stage.start()
    assert stage.door.find(ID).identity == identity


def test_what_can_not_be_started_is_an_error_and_is_not_there(stage: Stage) -> None:
    with pytest.raises(LaunchError, match="can't be started"):
        stage.start_impossible()
    assert stage.door.find(ID).presence is Presence.STOPPED


def test_a_stop_ends_it_gracefully_and_it_can_be_started_again(stage: Stage) -> None:
    identity = stage.start()
    report = stage.door.stop(ID, timeout=10)
    assert (report.state, report.ending, report.exit_code) == ("stopped", "graceful", -15)
    assert stage.door.state(identity) is Liveness.GONE
    assert stage.door.find(ID).presence is Presence.STOPPED
    assert stage.start() != identity


def test_to_stop_nothing_is_success(stage: Stage) -> None:
    report = stage.door.stop(ID)
    assert (report.state, report.ending, report.exit_code) == ("stopped", "nothing", None)


def test_a_deaf_one_is_killed_at_the_end_of_its_time(stage: Stage) -> None:
    identity = stage.start_deaf()
    report = stage.door.stop(ID, timeout=0.1)
    assert (report.state, report.ending, report.exit_code) == ("stopped", "killed", -9)
    assert [member.identity for member in report.killed] == [identity]
    assert report.seconds >= 0.1


def test_a_helper_is_ended_with_its_worker(stage: Stage) -> None:
    stage.start_with_helper()
    _, helper = stage.door.members(ID)
    report = stage.door.stop(ID, timeout=10)
    assert (report.state, report.ending) == ("stopped", "graceful")
    assert [member.identity for member in report.killed] == [helper.identity]
    assert stage.door.state(helper.identity).ended


def test_what_a_dead_worker_left_is_named_refuses_a_start_and_is_ended_by_a_stop(stage: Stage) -> None:
    stage.start_with_helper()
    stage.die()
    (helper,) = stage.door.find(ID).leftovers
    assert stage.door.members(ID) == (helper,)
    with pytest.raises(RefusedError):
        stage.start()
    report = stage.door.stop(ID, timeout=10)
    assert (report.state, report.ending) == ("stopped", "nothing")
    assert [member.identity for member in report.killed] == [helper.identity]
    stage.start()


def test_a_dead_one_is_stopped_and_its_exit_is_told_once(stage: Stage) -> None:
    identity = stage.start()
    stage.die()
    assert stage.door.find(ID).presence is Presence.STOPPED
    assert [one for one in stage.door.reap() if one.identity == identity] == [(identity, -9)]
    assert [one for one in stage.door.reap() if one.identity == identity] == []
    assert stage.door.exit_code(identity) == -9
    assert stage.door.state(identity) is Liveness.GONE
    stage.start()


def test_a_frozen_one_runs_and_can_be_stopped(stage: Stage) -> None:
    identity = stage.start()
    stage.freeze()
    found = stage.door.find(ID)
    assert (found.presence, found.life) == (Presence.RUNNING, Liveness.FROZEN)
    assert stage.door.stop(ID, timeout=10).state == "stopped"
    assert stage.door.state(identity).ended


def test_one_that_nobody_can_verify_is_neither_started_nor_stopped(stage: Stage) -> None:
    stage.start()
    stage.hide()
    found = stage.door.find(ID)
    assert (found.presence, found.identity) == (Presence.UNVERIFIABLE, None)
    assert found.reason
    with pytest.raises(RefusedError):
        stage.start()
    with pytest.raises(RefusedError, match="wasn't stopped"):
        stage.door.stop(ID)


def test_one_that_was_started_by_hand_is_adopted_and_can_be_stopped(stage: Stage) -> None:
    hand = stage.start_by_hand()
    assert stage.door.find(ID).presence is Presence.STOPPED
    (claimant,) = hand.claimants(stage.door)
    adopted = stage.door.adopt(ID, hand.profile, claimant)
    assert adopted is not None
    assert (adopted.presence, adopted.adopted) == (Presence.RUNNING, True)
    found = stage.door.find(ID)
    assert found.identity == adopted.identity == stage.door.identify(claimant.pid)
    with pytest.raises(RefusedError):
        stage.start()
    assert stage.door.stop(ID, timeout=10).stopped
    assert found.identity is not None
    assert stage.door.state(found.identity).ended


def test_no_claim_displaces_a_worker_that_runs(stage: Stage) -> None:
    identity = stage.start()
    hand = stage.start_by_hand()
    (claimant,) = hand.claimants(stage.door)
    found = stage.door.adopt(ID, hand.profile, claimant)
    assert found is None or found.identity == identity
    assert stage.door.find(ID).identity == identity


def test_a_process_with_another_command_is_not_adopted(stage: Stage) -> None:
    hand = stage.start_by_hand()
    longer = (*hand.profile.command, "more")
    other = hand.profile._replace(
        command=longer, forms=tuple(f._replace(words=(*f.words, "more")) for f in hand.profile.forms)
    )
    (claimant,) = stage.door.claimants(ID, other, (hand.claim,), search=False)
    assert "command line" in claimant.obstacle
    assert not claimant.alike
    assert stage.door.adopt(ID, other, claimant) is None
    assert stage.door.claimants(ID, other, (hand.claim._replace(fresh=False),), search=False) == ()
    assert stage.door.claimants(ID, hand.profile, (hand.claim._replace(pid=2**31 - 1),), search=False) == ()
    assert stage.door.find(ID).presence is Presence.STOPPED


def test_one_that_was_started_by_hand_claims_to_be_the_worker_until_it_is_on_record(stage: Stage) -> None:
    hand = stage.start_by_hand()
    (claimant,) = hand.claimants(stage.door, search=True)
    assert (claimant.pid, claimant.obstacle) == (hand.claim.pid, "")
    assert stage.door.suspected(ID)
    assert stage.door.claimants(ID, hand.profile, (), search=False) == (claimant,), "it is looked at without a search"
    assert stage.door.adopt(ID, hand.profile, claimant) is not None
    assert hand.claimants(stage.door, search=True) == ()
    assert stage.door.stop(ID, timeout=1).stopped
    assert hand.claimants(stage.door, search=True) == ()


def test_an_unknown_signal_is_refused(stage: Stage) -> None:
    identity = stage.start()
    with pytest.raises(UsageError, match="isn't a signal"):
        stage.door.stop(ID, stop_signal="NONE")
    assert stage.door.state(identity) is Liveness.ALIVE


def test_an_unknown_identity_is_gone(stage: Stage) -> None:
    identity = stage.start()
    stranger = identity._replace(start=identity.start + 1)
    assert stage.door.state(stranger) is Liveness.GONE
    assert stage.door.wait_exit(stranger, 0)
    assert stage.door.exit_code(stranger) is None


def test_the_fake_can_say_that_a_worker_can_not_be_killed(tmp_path: Path) -> None:
    """Only the fake: no real process can be asked to hang inside the kernel."""
    stage = FakeStage(tmp_path)
    identity = stage.start()
    stage.fake.unkillable(ID)
    report = stage.door.stop(ID, timeout=0.1)
    assert (report.state, report.stopped) == ("stuck", False)
    assert [member.identity for member in report.survivors] == [identity]
    assert (stage.door.find(ID).presence, stage.door.find(ID).stuck) == (Presence.RUNNING, True)
    stage.fake.unkillable(ID, is_so=False)
    assert stage.door.stop(ID).stopped
