"""Bringing a worker up: a pass that heals, and a daemon that starts, do it only where they surely may."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.configuration.service import ConfigService
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.reconciler import Reconciler
from supervisor_core.daemon.single_pass import Supervisor
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.workers import observation as observing
from supervisor_core.workers import pauses
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.pauses import Pause, pause_flag_path
from tests.support.homes import Home, a_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(made.folder)
        (made.nas / "00_STATE").mkdir()
        yield made


def pause_by_hand(home: Home) -> None:
    pause_flag_path(home.nas / "00_STATE", "OrionMX").touch()


def heal(home: Home) -> tuple[int, list[str], str]:
    """A pass that heals: its exit code, its actions, what went wrong."""
    supervisor = Supervisor(home.config, "OrionMX")
    code = supervisor.run_once(heal=True)
    return code, supervisor.findings.actions, "; ".join(supervisor.findings.problems)


def daemon_brings_up(home: Home) -> str:
    """The daemon carries out a planned start; its error."""
    reconciler = Reconciler(ConfigService(load_supervisor_config(home.config)))
    with opened_ledger(reconciler.context.host.config) as ledger:
        reconciler.context.opened = ledger
        error = reconciler.workers["OrionMX"].start()
        reconciler.adapter.close()
    return error


def unreadable(*_: object) -> Pause | None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_flag_made_by_hand_that_the_look_missed_is_asked_for_before_the_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drive did not answer the look and is back for the start."""

    def away(*_: object) -> None:
        raise DriveUnavailable

    pause_by_hand(home)
    with monkeypatch.context() as patched:
        patched.setattr(observing, "last_beats", away)
        _, actions, _ = heal(home)
    assert actions == []
    assert home.running_copies("OrionMX") == []
    assert heal(home) == (0, [], ""), "paused is fine"


@pytest.mark.parametrize("paused", [False, True])
def test_a_pass_goes_by_the_copy_while_the_drive_can_not_say_whether_a_flag_is_there(
    home: Home, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    if paused:
        pause_by_hand(home)
        assert heal(home) == (0, [], ""), "from here on the copy knows the flag"
    for module in (pauses, observing):
        monkeypatch.setattr(module, "read_flags", unreadable)
    _, actions, _ = heal(home)
    assert (actions, len(home.running_copies("OrionMX"))) == (([], 0) if paused else (["started"], 1))


@pytest.mark.parametrize("paused", [False, True])
def test_so_does_a_daemon(home: Home, monkeypatch: pytest.MonkeyPatch, paused: bool) -> None:
    if paused:
        pause_by_hand(home)
        assert heal(home) == (0, [], "")
    monkeypatch.setattr(pauses, "read_flags", unreadable)
    assert daemon_brings_up(home) == ""
    assert len(home.running_copies("OrionMX")) == (0 if paused else 1)


def test_a_resume_holds_before_the_drive_has_heard_of_it(home: Home) -> None:
    home.state_dir.mkdir(mode=0o700)
    pause_by_hand(home)
    home.nas.rename(home.folder / "elsewhere")
    host = open_doors(load_supervisor_config(home.config))
    assert not host.pauses.set("OrionMX", None).on_drive
    assert host.pauses.read("OrionMX") is None
    (home.folder / "elsewhere").rename(home.nas)
    assert host.pauses.read("OrionMX") is None
    assert not pause_flag_path(home.nas / "00_STATE", "OrionMX").exists()


def test_a_pause_holds_while_the_drive_is_away(home: Home) -> None:
    home.state_dir.mkdir(mode=0o700)
    host = open_doors(load_supervisor_config(home.config))
    host.pauses.set("OrionMX", Pause("cli:anna"))
    home.nas.rename(home.folder / "elsewhere")
    assert host.pauses.read("OrionMX") == Pause("cli:anna")


class SlowDrive(Drive):
    """Answers, but takes longer than `status` waits."""

    def confirm(self) -> None:
        threading.Event().wait(0.3)
        super().confirm()


@pytest.mark.parametrize(("patient", "known"), [(True, True), (False, False)])
def test_a_drive_that_is_slow_counts_as_hanging_for_status_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch, patient: bool, known: bool
) -> None:
    monkeypatch.setattr(observing, "DRIVE_SECONDS", 0.05)
    pause_by_hand(home)
    supervisor = Supervisor(home.config, "OrionMX")
    host = open_doors(supervisor.config)
    slow = replace(host, drive=SlowDrive(host.drive.root))
    supervisor.host = slow
    seen = supervisor.observe() if patient else observing.observe_workers(slow, [supervisor.worker])[0]
    assert (seen.heartbeat_known, seen.pause is not None) == (known, known)
