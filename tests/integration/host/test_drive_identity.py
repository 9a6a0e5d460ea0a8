"""A drive that is away leaves an empty folder behind: it is not taken for the drive, and ends no pause."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import validate_supervisor_environment
from supervisor_core.doctor.host import check_drive as examine_drive
from supervisor_core.host.drive import MARKER, NOTE, Drive, DriveUnavailable
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.pauses import Pause, pause_flag_path
from tests.support.homes import Home, a_home

BY_ANNA = Pause("cli:anna", "2026-02-05T14:30:15.000000Z", "anna - hotfix", "t1")


class Place:
    """Two hosts, `one` and `two`, with state folders of their own and one drive that can be taken away."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.away = folder, folder / "nas", folder / "away"
        self.state = self.root / "00_STATE"
        self.root.mkdir()
        self.one = self.host("one")

    def host(self, name: str) -> HostContext:
        document = {
            "supervisor": {"id": name, "state_dir": name},
            "nas": {"root": "nas", "layout": "cornerstone"},
            "workers": {"OrionMX": {"command": ["{python}", "-V"]}},
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        (self.folder / name).mkdir(exist_ok=True)
        return open_doors(load_supervisor_config(path))

    def note(self, name: str = "one") -> Path:
        return self.folder / name / NOTE

    def swap(self) -> None:
        """Unmount: what is left is an empty folder."""
        self.root.rename(self.away)
        self.root.mkdir()

    def swap_back(self) -> None:
        shutil.rmtree(self.root)
        self.away.rename(self.root)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def seen_pause(host: HostContext) -> Pause | None:
    return observe_workers(host, [host.config.worker("OrionMX")])[0].pause


def test_an_empty_folder_in_the_place_of_the_drive_ends_no_pause_and_stays_empty(place: Place) -> None:
    place.one.pauses.set("OrionMX", BY_ANNA)
    place.swap()
    for host in (place.one, place.host("one")):
        assert seen_pause(host) == host.pauses.read("OrionMX") == BY_ANNA
        (issue,) = validate_supervisor_environment(host.config)["issues"]
        assert f"If it was replaced on purpose, delete {place.note()}." in issue
        with pytest.raises(DriveUnavailable, match=r"has no supervisor_drive\.json\. Mount it\."):
            host.drive.make_folder(place.root / "05_LOGS")
        assert not host.pauses.set("OrionMX", BY_ANNA).on_drive
        assert os.listdir(place.root) == []
    place.swap_back()
    assert place.one.pauses.settle("OrionMX").on_drive
    assert validate_supervisor_environment(place.one.config)["valid"]


def test_neither_does_a_state_folder_that_a_worker_made_in_it(place: Place) -> None:
    place.one.pauses.set("OrionMX", BY_ANNA)
    place.swap()
    place.state.mkdir()
    (place.state / "watcher_heartbeat_OrionMX.json").write_text("{}")
    assert place.one.pauses.read("OrionMX") == seen_pause(place.one) == BY_ANNA


def test_a_flag_removed_by_hand_still_ends_the_pause(place: Place) -> None:
    place.one.pauses.set("OrionMX", BY_ANNA)
    pause_flag_path(place.state, "OrionMX").unlink()
    assert seen_pause(place.one) is None
    assert place.one.pauses.read("OrionMX") is None


def test_a_drive_is_marked_once_its_state_folder_is_written_to_and_hosts_share_the_mark(place: Place) -> None:
    place.one.drive.check()
    assert seen_pause(place.one) is None
    place.one.drive.make_folder(place.root / "05_LOGS")
    assert not place.note().exists(), "it has no state folder yet"
    for host in (place.one, place.host("one"), place.host("two")):
        host.drive.make_folder(place.state)
    modes = [path.stat().st_mode & 0o777 for path in (place.state / MARKER, place.note("one"), place.note("two"))]
    assert modes == [0o640, 0o600, 0o600]
    assert os.listdir(place.state) == [MARKER], "nothing else is left there"


def test_a_flag_that_was_there_first_counts_and_survives_a_drive_replaced_on_purpose(place: Place) -> None:
    place.state.mkdir()
    pause_flag_path(place.state, "OrionMX").write_text("")
    assert place.one.pauses.read("OrionMX") == Pause()
    place.one.drive.make_folder(place.state)
    assert place.one.pauses.read("OrionMX") == Pause()
    place.swap()
    assert place.one.pauses.read("OrionMX") == Pause()
    place.note().unlink()
    assert place.one.pauses.read("OrionMX") == Pause(), "replaced on purpose, and told again"
    assert pause_flag_path(place.state, "OrionMX").exists()


def test_a_drive_replaced_on_purpose_is_taken_when_the_note_is_deleted_and_pauses_go_along(place: Place) -> None:
    two = place.host("two")
    place.one.pauses.set("OrionMX", BY_ANNA)
    two.drive.make_folder(place.state)
    two.pauses.set("West", BY_ANNA)
    place.swap()
    place.note("one").unlink()
    place.note("two").unlink()
    assert seen_pause(place.one) == BY_ANNA, "before anybody wrote there"
    place.one.drive.make_folder(place.state)
    assert seen_pause(place.one) == place.one.pauses.read("OrionMX") == BY_ANNA
    assert pause_flag_path(place.state, "OrionMX").exists()
    two.drive.make_folder(place.state)
    assert two.pauses.read("West") == BY_ANNA
    pause_flag_path(place.state, "OrionMX").unlink()
    assert place.one.pauses.read("OrionMX") is None, "by hand, as ever"


def test_the_doctor_does_not_call_an_empty_folder_the_drive(place: Place) -> None:
    place.one.drive.make_folder(place.state)
    assert examine_drive(place.one.config).ok
    place.swap()
    with pytest.raises(DriveUnavailable, match=r"has no supervisor_drive\.json\. Mount it\."):
        examine_drive(place.one.config)


def test_another_path_in_the_configuration_is_another_drive_and_needs_no_deleting(place: Place) -> None:
    place.one.drive.make_folder(place.state)
    moved = place.folder / "moved"
    moved.mkdir()
    drive = Drive(moved, note=place.note(), state_folder=moved / "00_STATE")
    drive.check()
    drive.make_folder(moved / "00_STATE")
    assert drive.known_id()
    (moved / "00_STATE" / MARKER).unlink()
    with pytest.raises(DriveUnavailable):
        drive.check()


@pytest.mark.parametrize("spoil", [lambda path: path.write_text("{"), lambda path: path.write_text("[]")])
def test_a_note_that_cannot_be_read_is_said_and_not_guessed(place: Place, spoil: Callable[[Path], object]) -> None:
    place.one.pauses.set("OrionMX", BY_ANNA)
    spoil(place.note())
    place.swap()
    with pytest.raises(DriveUnavailable, match=f"then delete {place.note()}"):
        place.one.drive.check()
    assert place.one.pauses.read("OrionMX") == BY_ANNA


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def unmount(home: Home) -> None:
    home.nas.rename(home.folder / "elsewhere")
    home.nas.mkdir()


def test_a_pass_does_not_heal_a_paused_worker_while_the_drive_is_unmounted(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert home.supervisor("once", "--heal").returncode == 0
    unmount(home)
    done = home.supervisor("once", "--heal")
    assert done.returncode == 1
    assert f"delete {home.state_dir / NOTE}" in done.stderr
    assert home.running_copies("OrionMX") == []
    assert os.listdir(home.nas) == []


def test_nor_does_a_daemon_that_starts(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert home.supervisor("once").returncode == 0
    unmount(home)
    home.start_daemon()
    assert home.worker("OrionMX")["paused"]
    assert home.running_copies("OrionMX") == []
    assert os.listdir(home.nas) == []
