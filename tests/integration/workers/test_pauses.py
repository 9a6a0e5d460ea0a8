"""Pauses: what the drive says, what holds while it is away, and how the two come together again."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor_core.common import crashpoints
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.workers.pauses import Pause, Pauses, is_watcher_paused, pause_flag_path
from tests.support.waiting import wait_until

BY_ANNA = Pause("cli:anna", "2026-02-05T14:30:15.000000Z", "anna - hotfix", "t1")
BY_BOB = Pause("cli:bob", "2026-02-05T15:00:00.000000Z", "bob", "t2")


class Place:
    """A state folder at home and a drive that can be taken away."""

    def __init__(self, folder: Path) -> None:
        self.state_dir, self.root, self.away = folder / "var", folder / "nas", folder / "away"
        self.state_dir.mkdir()
        self.root.mkdir()
        self.drive = Drive(self.root)
        self.folder = self.root / "00_STATE"
        self.flag = pause_flag_path(self.folder, "OrionMX")
        self.pauses = self.again()

    def again(self) -> Pauses:
        """As another process would see it."""
        return Pauses(self.state_dir, self.folder, self.drive, 0o640)

    def unmount(self) -> None:
        self.root.rename(self.away)

    def mount(self) -> None:
        self.away.rename(self.root)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_pause_is_on_the_drive_and_at_home_and_goes_from_both(place: Place) -> None:
    assert place.pauses.read("OrionMX") is None
    assert place.pauses.set("OrionMX", BY_ANNA).on_drive
    assert json.loads(place.flag.read_text()) == {"worker_id": "OrionMX", **BY_ANNA._asdict()}
    assert place.flag.stat().st_mode & 0o777 == 0o640
    assert is_watcher_paused(place.folder, "OrionMX")
    assert place.again().read("OrionMX") == place.again().look("OrionMX", None, flag_known=False) == BY_ANNA
    assert place.pauses.read("West") is None
    assert place.pauses.set("OrionMX", None).on_drive
    assert not place.flag.exists()
    assert place.again().read("OrionMX") is place.again().look("OrionMX", None, flag_known=False) is None
    assert place.pauses.set("OrionMX", None).on_drive, "twice does no harm"


@pytest.mark.parametrize(("now", "then"), [(BY_ANNA, None), (None, BY_ANNA)])
def test_with_the_drive_away_a_change_holds_at_once_and_is_told_later(
    place: Place, now: Pause | None, then: Pause | None
) -> None:
    place.pauses.set("OrionMX", then)
    place.unmount()
    written = place.pauses.set("OrionMX", now)
    assert not written.on_drive
    assert "The drive isn't mounted" in written.problem
    assert place.again().read("OrionMX") == place.again().look("OrionMX", None, flag_known=False) == now
    assert not place.root.exists(), "a drive that is away is not made"
    place.mount()
    assert place.flag.exists() == (then is not None), "the drive does not know it yet"
    assert place.again().settle("OrionMX").on_drive
    assert place.flag.exists() == (now is not None)
    assert place.again().read("OrionMX") == now


def test_what_we_said_while_the_drive_was_away_wins_over_what_lies_there(place: Place) -> None:
    place.unmount()
    place.pauses.set("OrionMX", BY_ANNA)
    place.mount()
    place.folder.mkdir()
    place.flag.write_text(json.dumps(BY_BOB._asdict()))
    assert place.pauses.read("OrionMX") == BY_ANNA
    assert json.loads(place.flag.read_text())["by"] == "cli:anna"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", Pause()),
        (b"{", Pause()),
        (b"[]", Pause()),
        (b"{}", Pause()),
        (b'{"by": 7, "label": ["x"], "at": null}', Pause()),
        (b'{"by": "anna", "more": 1}', Pause(by="anna")),
        (b'{"by": "a\\u0000b\\nc\\u001b[31m"}', Pause(by=r"a\x00b\nc\x1b[31m")),
        (b'{"by": "\\ud800", "label": "\\udfff"}', Pause(by=r"\ud800", label=r"\udfff")),
        (b'{"by": "\xff"}', Pause()),
        (b"[" * 100_000, Pause()),
    ],
)
def test_a_flag_made_by_hand_pauses_whatever_is_in_it(place: Place, content: bytes, expected: Pause) -> None:
    place.folder.mkdir()
    place.flag.write_bytes(content)
    assert place.pauses.read("OrionMX") == expected
    assert str(expected).isprintable()
    place.unmount()
    assert place.again().read("OrionMX") == expected, "the copy has caught up"


def test_a_flag_removed_by_hand_ends_the_pause_also_for_the_copy(place: Place) -> None:
    place.pauses.set("OrionMX", BY_ANNA)
    place.flag.unlink()
    assert place.again().look("OrionMX", None, flag_known=False) == BY_ANNA, "nobody has looked yet"
    assert place.again().read("OrionMX") is None
    place.unmount()
    assert place.again().read("OrionMX") is None


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_is_no_pause_and_is_not_waited_for(place: Place, make: Callable[[Path], object]) -> None:
    place.folder.mkdir()
    make(place.flag)
    assert place.pauses.read("OrionMX") is None


def test_while_the_drive_hangs_the_copy_answers_and_a_pause_holds(place: Place) -> None:
    release = threading.Event()
    with pytest.raises(DriveUnavailable):
        place.drive.call(release.wait, timeout=0.3)
    assert not place.pauses.set("OrionMX", BY_ANNA).on_drive
    assert place.pauses.read("OrionMX") == BY_ANNA
    release.set()
    wait_until(lambda: not place.drive.hangs, 5, "the drive is back")
    assert place.pauses.settle("OrionMX").on_drive
    assert place.flag.exists()


def test_a_broken_copy_is_as_good_as_none(place: Place) -> None:
    place.pauses.set("OrionMX", BY_ANNA)
    (place.state_dir / "desired" / "OrionMX.json").write_bytes(b'{"pause": [], "waits": ')
    assert place.pauses.look("OrionMX", None, flag_known=False) is None
    assert place.pauses.read("OrionMX") == BY_ANNA
    assert place.pauses.look("OrionMX", None, flag_known=False) == BY_ANNA


def test_a_resume_is_told_to_the_drive_even_if_another_look_touched_the_copy_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that had read the old copy writes it back between the change and the telling."""
    place.pauses.set("OrionMX", BY_ANNA)
    copy = place.state_dir / "desired" / "OrionMX.json"
    stale = copy.read_bytes()

    def interfere(point: str) -> None:
        if point == "pause.copy:after":
            copy.write_bytes(stale)

    monkeypatch.setattr(crashpoints, "reach", interfere)
    assert place.pauses.set("OrionMX", None).on_drive
    assert not place.flag.exists()
    assert place.again().look("OrionMX", None, flag_known=False) is None
