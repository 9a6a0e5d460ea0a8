"""The supervisor's own heartbeat file: what a pass says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon.single_passes import carry_out, state
from tests.support.homes import Home, a_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def test_heartbeat_file_says_how_the_pass_went(home: Home) -> None:
    path = state(home) / "supervisor_heartbeat_OrionMX.json"
    assert home.supervisor("once").returncode == 1
    said = json.loads(path.read_text())
    assert set(said) == {"supervisor_id", "worker_id", "timestamp", "success", "error", "actions"}
    assert (said["supervisor_id"], said["worker_id"], said["success"]) == ("TestHost", "OrionMX", False)
    assert "OrionMX is missing" in said["error"]
    carry_out(home, "pause")
    said = json.loads(path.read_text())
    assert (said["success"], said["error"], said["actions"]) == (True, None, ["pause"])
