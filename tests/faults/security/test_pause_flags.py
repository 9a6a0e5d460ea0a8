"""Pause flags that somebody removes, makes or alters on the drive: with a secret the supervisor's own word holds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.views.cards.notices import pause_flag
from supervisor_core.alerts.messages import PAUSE_FLAG
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.services.monitoring import record_pause_flag_change
from supervisor_core.daemon.single_pass import Supervisor
from supervisor_core.storage import outbox
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.pauses import Pause, PauseFlagChange, Pauses, is_watcher_paused, pause_flag_path
from tests.support.daemon.reconciliation import a_world, until

BY_ANNA = Pause("cli:anna", "2026-02-05T14:30:15.000000Z", "anna - hotfix", "t1")
SECRET = "a long secret"


class Place:
    """A host, and a drive that others can write to."""

    def __init__(self, folder: Path, secret: str, ledger_of: Any = opened_ledger) -> None:
        (folder / "nas").mkdir(exist_ok=True)
        self.path = folder / "config.yaml"
        self.path.write_text(
            yaml.safe_dump(
                {
                    "supervisor": {"id": "TestHost", "state_dir": "var"},
                    "nas": {"root": "nas", "layout": "cornerstone"},
                    "inbox": {"secret": secret},
                    "workers": {"OrionMX": {"command": ["{python}", "-V"]}},
                    "slack": {"alert_channel": "C0OPS"},
                }
            )
        )
        self.config: SupervisorConfig = load_supervisor_config(self.path)
        self.host = open_doors(self.config)
        self.pauses = self.host.pauses
        self.flag = pause_flag_path(self.config.folder("state"), "OrionMX")

    def keep_record(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.pauses.hand_made = lambda change: record_pause_flag_change(self.config, ledger, change)

    def trail(self) -> list[dict[str, Any]]:
        return self.ledger.read(lambda connection: search(connection, AuditFilter(limit=1000)))

    def notices(self) -> list[str]:
        found = self.ledger.read(lambda connection: outbox.pending_of_kind(connection, PAUSE_FLAG, 100))
        return [str(pause_flag(each.payload)["text"]) for each in found]

    def seen_paused(self) -> bool:
        (seen,) = observe_workers(self.host, list(self.config.workers.values()))
        return seen.pause is not None


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, SECRET)
    with opened_ledger(place.config) as ledger:
        place.keep_record(ledger)
        yield place


@pytest.fixture
def open_place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, "")
    with opened_ledger(place.config) as ledger:
        place.keep_record(ledger)
        yield place


def test_with_a_secret_a_deleted_pause_flag_is_restored_audited_and_told_once(guarded: Place) -> None:
    guarded.pauses.set("OrionMX", BY_ANNA)
    for _ in range(5):
        guarded.flag.unlink()
        assert guarded.seen_paused(), "a look believes the copy as well"
        found = guarded.pauses.read("OrionMX")
        assert found is not None
        assert found.by == "cli:anna"
        assert json.loads(guarded.flag.read_text())["by"] == "cli:anna"
    (row,) = guarded.trail()
    assert (row["action"], row["outcome"], row["actor"], row["target_id"]) == (
        "REFUSED",
        "failure",
        "file:unknown",
        "OrionMX",
    )
    assert "deleted without a command" in json.loads(row["details_json"])["error"]
    (notice,) = guarded.notices()
    assert "its pause flag was deleted" in notice


@pytest.mark.parametrize("content", ["", "{}", json.dumps({**BY_ANNA._asdict(), "signature": "é" * 64})])
def test_with_a_secret_a_pause_flag_that_nobody_signed_is_removed_audited_and_told(
    guarded: Place, content: str
) -> None:
    guarded.flag.parent.mkdir(parents=True)
    guarded.flag.write_text(content)
    assert not guarded.seen_paused()
    assert guarded.pauses.read("OrionMX") is None
    assert not guarded.flag.exists()
    (row,) = guarded.trail()
    assert (row["action"], row["actor"]) == ("REFUSED", "file:unknown")
    assert len(guarded.notices()) == 1


def test_with_a_secret_a_signed_flag_of_an_ended_pause_pauses_nobody_again(guarded: Place) -> None:
    guarded.pauses.set("OrionMX", BY_ANNA)
    replay = guarded.flag.read_bytes()
    guarded.pauses.set("OrionMX", None)
    guarded.flag.write_bytes(replay)
    assert guarded.pauses.read("OrionMX") is None
    assert not guarded.flag.exists()


def test_with_a_secret_an_altered_flag_is_put_back(guarded: Place) -> None:
    guarded.pauses.set("OrionMX", BY_ANNA)
    guarded.flag.write_text(json.dumps({**json.loads(guarded.flag.read_text()), "by": "cli:mallory"}))
    found = guarded.pauses.read("OrionMX")
    assert found is not None
    assert found.by == json.loads(guarded.flag.read_text())["by"] == "cli:anna"
    assert len(guarded.trail()) == 1


def test_with_a_secret_a_new_state_folder_believes_a_flag_that_was_signed_for_it_alone(guarded: Place) -> None:
    guarded.pauses.set("OrionMX", BY_ANNA)
    (guarded.config.state_dir / "desired" / "OrionMX.json").unlink()
    found = guarded.pauses.read("OrionMX")
    assert found is not None
    assert found.by == "cli:anna"
    assert guarded.trail() == []
    other = pause_flag_path(guarded.config.folder("state"), "West")
    guarded.flag.rename(other)
    assert guarded.pauses.read("West") is None, "it names another worker"


@pytest.mark.parametrize("secret", [SECRET, ""])
def test_a_ledger_that_can_not_be_written_keeps_nobody_from_knowing_what_holds(tmp_path: Path, secret: str) -> None:
    place = Place(tmp_path, secret)
    with opened_ledger(place.config) as ledger:
        place.pauses.set("OrionMX", BY_ANNA)
        place.flag.unlink()

        def full(_change: PauseFlagChange) -> None:
            raise LedgerUnavailable("The ledger can't be written: the disk is full.")

        place.pauses.hand_made = full
        for _ in range(2):
            assert (place.pauses.read("OrionMX") is not None) == bool(secret)
        place.keep_record(ledger)
        assert (place.pauses.read("OrionMX") is not None) == bool(secret)
        assert place.flag.exists() == bool(secret)
        assert [row["action"] for row in place.trail()] == ["REFUSED" if secret else "RESUME"]


def test_a_pause_flag_swapped_for_a_folder_ends_no_pause(guarded: Place) -> None:
    guarded.pauses.set("OrionMX", BY_ANNA)
    guarded.flag.unlink()
    guarded.flag.mkdir()
    for _ in range(3):
        assert guarded.pauses.read("OrionMX") is not None
    assert len(guarded.trail()) == 1


def test_without_a_secret_a_deleted_flag_is_a_resume_and_a_new_one_a_pause_each_with_its_row(open_place: Place) -> None:
    open_place.pauses.set("OrionMX", BY_ANNA)
    open_place.flag.unlink()
    for _ in range(2):
        assert open_place.pauses.read("OrionMX") is None
    open_place.flag.touch()
    assert open_place.pauses.read("OrionMX") == Pause()
    assert {(row["action"], row["outcome"], row["actor"]) for row in open_place.trail()} == {
        ("RESUME", "success", "file:unknown"),
        ("PAUSE", "success", "file:unknown"),
    }
    assert len(open_place.trail()) == 2
    assert open_place.notices() == []


@pytest.mark.parametrize("secret", [SECRET, ""])
def test_the_daemon_puts_a_deleted_flag_back_and_starts_nobody_unless_there_is_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    with a_world(tmp_path, monkeypatch, North={}) as world:
        config, ledger = world.parts.host.config, world.parts.ledger
        host = replace(
            world.parts.host,
            pauses=Pauses(config.state_dir, config.folder("state"), world.parts.host.drive, 0o640, secret, "TestHost"),
        )
        world.parts.host = host
        host.pauses.hand_made = lambda change: record_pause_flag_change(config, ledger, change)
        flag = pause_flag_path(config.folder("state"), "North")

        async def story() -> None:
            host.pauses.set("North", BY_ANNA)
            await world.reconciler.start()
            await until(lambda: world.state("North") == "stopped")
            flag.unlink()
            world.reconciler.plan_again("North")
            await until(flag.exists if secret else lambda: world.state("North") == "running")
            await until(lambda: ledger.read(lambda connection: chain.newest_row(connection, "TestHost")))
            assert world.state("North") == ("stopped" if secret else "running")

        world.run(story())
        trail = ledger.read(lambda connection: search(connection, AuditFilter(limit=1000)))
        assert [row["action"] for row in trail] == ["REFUSED" if secret else "RESUME"]


@pytest.mark.parametrize("secret", [SECRET, ""])
def test_a_pass_notices_a_deleted_flag(tmp_path: Path, secret: str) -> None:
    place = Place(tmp_path, secret)
    place.config.state_dir.mkdir(mode=0o700)
    place.pauses.set("OrionMX", BY_ANNA)
    os.unlink(place.flag)  # noqa: PTH108 (as an attacker does)
    Supervisor(place.path).run_once()
    assert is_watcher_paused(place.config.folder("state"), "OrionMX") == bool(secret)
    with opened_ledger(place.config) as ledger:
        place.keep_record(ledger)
        assert [row["action"] for row in place.trail()] == ["REFUSED" if secret else "RESUME"]
