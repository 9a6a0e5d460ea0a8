"""A worker that can't live is not started by passes for ever: `restart.max_per_hour` counts over all of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.workers.restarts.history import TooManyStarts, note_start, read_starts, write_starts
from supervisor_core.workers.restarts.policy import WINDOW
from tests.support.homes import a_home, demo_command

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def configured(folder: Path, limit: int) -> tuple[SupervisorConfig, WorkerSettings]:
    folder.mkdir()
    path = folder / "config.yaml"
    path.write_text(f"workers: {{OrionMX: {{command: [x], restart: {{max_per_hour: {limit}}}}}}}\n")
    config = load_supervisor_config(path, environ={})
    config.state_dir.mkdir()
    return config, config.worker("OrionMX")


def test_passes_start_a_worker_that_dies_as_often_as_configured_and_then_say_why_not(tmp_path: Path) -> None:
    dying = {"command": ["false"], "start_grace_seconds": 5, "restart": {"max_per_hour": 2}}
    with a_home(tmp_path / "home", {"OrionMX": dying}) as home:

        def heal() -> str:
            done = home.supervisor("once", "--heal")
            assert done.returncode == 1
            said = json.loads((home.nas / "00_STATE" / "supervisor_heartbeat_OrionMX.json").read_text())
            return f"{said['actions']} {said['error']}"

        for _ in range(2):
            assert heal().startswith("[] OrionMX can't start: OrionMX exited (code 1) within")
        refused = heal()
        assert refused.startswith("[] OrionMX can't start: It was restarted automatically twice in an")
        assert "workers.OrionMX.restart.max_per_hour allows no more" in refused
        note = home.state_dir / "workers" / "OrionMX.starts"
        assert len(json.loads(note.read_text())["starts"]) == 2, "what was refused does not count"
        assert note.stat().st_mode & 0o777 == 0o600


def test_one_that_lives_is_started_although_others_were_started_too_often(tmp_path: Path) -> None:
    living = {"command": demo_command(), "start_grace_seconds": 0.2}
    with a_home(tmp_path / "home", {"OrionMX": living, "West": living}) as home:
        notes = home.state_dir / "workers"
        notes.mkdir(parents=True, mode=0o700)
        often = [datetime.now(UTC).isoformat()] * 5
        (notes / "West.starts").write_text(json.dumps({"starts": often}))
        assert home.supervisor("once", "--heal", "--worker-id", "West").returncode == 1
        assert home.supervisor("once", "--heal", "--worker-id", "OrionMX").returncode == 0
        assert home.running_copies("West") == []
        assert home.json("send", "restart West")["task_id"]
        assert home.supervisor("once", "--worker-id", "West").returncode == 0, "a person may start it all the same"


def test_starts_count_for_an_hour(tmp_path: Path) -> None:
    config, worker = configured(tmp_path / "host", 2)
    note_start(config.state_dir, worker, NOW)
    note_start(config.state_dir, worker, NOW + 30 * MINUTE)
    with pytest.raises(TooManyStarts, match="twice in an hour"):
        note_start(config.state_dir, worker, NOW + 59 * MINUTE)
    note_start(config.state_dir, worker, NOW + WINDOW)
    with pytest.raises(TooManyStarts):
        note_start(config.state_dir, worker, NOW + WINDOW + MINUTE)


def test_with_a_limit_of_0_no_pass_starts_it(tmp_path: Path) -> None:
    config, worker = configured(tmp_path / "host", 0)
    with pytest.raises(
        TooManyStarts, match=r"Automatic starts are off \(workers\.OrionMX\.restart\.max_per_hour is 0\)"
    ):
        note_start(config.state_dir, worker, NOW)


def test_a_clock_that_was_ahead_holds_nothing_up_once_it_is_right(tmp_path: Path) -> None:
    config, worker = configured(tmp_path / "host", 2)
    write_starts(config.state_dir, "OrionMX", [NOW + timedelta(days=365), NOW - MINUTE, NOW - WINDOW])
    note_start(config.state_dir, worker, NOW)
    assert read_starts(config.state_dir, "OrionMX") == [NOW - MINUTE, NOW]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"starts": 7}', b'{"starts": [null, "soon", "2026-02-05"]}'])
def test_a_note_that_was_spoiled_counts_nothing_and_is_written_anew(tmp_path: Path, content: bytes) -> None:
    config, worker = configured(tmp_path / "host", 1)
    note = config.state_dir / "workers" / "OrionMX.starts"
    note.parent.mkdir()
    note.write_bytes(content)
    note_start(config.state_dir, worker, NOW)
    with pytest.raises(TooManyStarts, match="once in an hour"):
        note_start(config.state_dir, worker, NOW + MINUTE)


def test_what_can_not_be_noted_is_not_started(tmp_path: Path) -> None:
    config, worker = configured(tmp_path / "host", 5)
    (config.state_dir / "workers").write_text("")
    with pytest.raises(OSError, match=r"workers"):
        note_start(config.state_dir, worker, NOW)
