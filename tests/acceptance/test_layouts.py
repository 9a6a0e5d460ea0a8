"""Where flags, results, pauses and logs are: in the state folder without a drive, and never forgotten by an upgrade."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until


class PlainHome(Home):
    """A host without a shared drive: the configuration has no section `nas`."""

    def __init__(self, folder: Path, workers: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        super().__init__(folder, workers, settings)
        self.nas.rmdir()
        self.inbox, self.outbox = self.state_dir / "inbox", self.state_dir / "outbox"
        document = yaml.safe_load(self.config.read_text())
        del document["nas"]
        self.config.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Home]:
    command = [{"nas/00_STATE": "var/state"}.get(word, word) for word in demo_command()]
    worker = {"command": command, "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
    with a_home(tmp_path / "home", {"OrionMX": worker}, make=PlainHome) as made:
        yield made


def test_without_a_drive_a_daemon_and_a_flag_need_only_the_state_folder(plain: Home) -> None:
    checked = plain.supervisor("doctor")
    assert f"none; the first run creates the folders in {plain.state_dir}" in checked.stdout
    plain.start_daemon()
    wait_until(lambda: plain.worker("OrionMX")["health"] == "healthy", 10, "the heartbeat is read")
    wait_until(
        lambda: b"started, version" in plain.output("OrionMX").read_bytes(), 10, "the worker's output is captured"
    )
    plain.drop_flag("supervisor_pause_OrionMX_t1.flag", {"label": "by hand"})
    wait_until(lambda: plain.result("pause", "t1"), 10, "there is a result")
    assert plain.result("pause", "t1")["success"]  # type: ignore[index]
    assert (plain.state_dir / "state" / "supervisor_pause_OrionMX.flag").exists()
    assert plain.worker("OrionMX")["paused"]
    assert plain.supervisor("status").returncode == 0
    plain.supervisor("daemon", "stop")
    assert [path.name for path in (plain.state_dir / "logs").iterdir()] == [], "nothing is copied to its own disk"
    progress = json.loads((plain.state_dir / "output" / "OrionMX.json").read_text())
    assert progress["delivered"] > 0, "and nothing waits"
    names = {path.name for path in plain.state_dir.iterdir()}
    assert {"state", "inbox", "outbox", "logs"} <= names
    assert not [name for name in names if name[0].isdigit() or name.startswith("Worker_")]
    assert sorted(path.name for path in plain.folder.iterdir()) == ["config.yaml", "daemon.log", "var"]


def test_without_a_drive_a_pass_works_before_anything_exists(plain: Home) -> None:
    done = plain.supervisor("once", "--heal")
    assert (done.returncode, plain.running_copies("OrionMX")) == (0, plain.running_copies("OrionMX")[:1]), done.stderr
    said = json.loads((plain.state_dir / "state" / "supervisor_heartbeat_OrionMX.json").read_text())
    assert said["success"]


def test_a_configuration_from_before_layouts_loses_no_flag_and_no_pause(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        assert home.supervisor("once", "--heal").returncode == 0
        home.drop_flag("supervisor_pause_OrionMX_t1.flag", {})
        assert home.supervisor("once").returncode == 0
        home.drop_flag("supervisor_diagnostics_OrionMX_t2.flag", {})
        now = home.config.read_text()
        home.config.write_text(now.replace("  layout: cornerstone\n", ""))

        upgraded = home.supervisor("once", "--heal")

        assert upgraded.returncode == 1
        assert "exists, but nas.layout isn't set. Add layout: cornerstone to the section nas." in upgraded.stderr
        assert home.running_copies("OrionMX") == [], "the pause holds"
        assert (home.inbox / "supervisor_diagnostics_OrionMX_t2.flag").exists()
        assert "Warning: " in home.supervisor("config", "check").stdout
        assert "Add layout: cornerstone to the section nas." in home.supervisor("doctor").stdout
        assert not [name for name in ("state", "inbox", "outbox", "logs") if (home.nas / name).exists()]

        home.config.write_text(now)
        assert home.supervisor("once").returncode == 0
        assert home.result("diagnostics", "t2")
        assert home.running_copies("OrionMX") == [], "it's still paused"


def test_a_worker_with_a_pause_that_the_layout_hides_is_not_started(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        (home.nas / "00_STATE").mkdir()
        (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").touch()
        with_layout = home.config.read_text()
        home.config.write_text(with_layout.replace("  layout: cornerstone\n", ""))
        home.start_daemon()
        wait_until(lambda: "nas.layout" in str(home.worker("OrionMX")["last_error"]), 20, "the start was refused")
        assert home.running_copies("OrionMX") == []
        refused = home.supervisor("send", "restart OrionMX", "--wait")
        assert refused.returncode == 1
        assert "Add layout: cornerstone to the section nas." in refused.stdout + refused.stderr
        assert home.supervisor("daemon", "stop").returncode == 0
        home.config.write_text(with_layout)
        home.start_daemon()
        assert home.worker("OrionMX")["paused"]
        assert home.running_copies("OrionMX") == []
