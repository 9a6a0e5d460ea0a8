"""Rejected flags: each has an answer under the id that its writer waits for, and none lies in the inbox unnoticed."""

from __future__ import annotations

import json

import pytest

from supervisor_core.intake.inbox import SweepResult
from tests.integration.intake.test_flag_intake import Scene, scene

__all__ = ["scene"]

CASES = [
    ("supervisor_pause_OrionMX_t7.flag", b'{"label": "night shift", "params": {"n": 1}}'),
    ("supervisor_pause_OrionMX.flag", b'{"task_id": "t7", "label": "night shift", "params": {"n": 1}}'),
    ("supervisor_pause_OrionMX.flag", b'{"task_id": "t7", "label": "night shift", "handler": "resume"}'),
]


@pytest.mark.parametrize(("name", "content"), CASES)
def test_a_rejected_flag_keeps_its_id_and_label_in_the_result_its_name_and_the_trail(
    scene: Scene, name: str, content: bytes
) -> None:
    scene.drop(content, name)
    assert scene.sweep() == SweepResult(rejected=1)
    (result,) = scene.results()
    assert (result["task_id"], result["label"], result["success"]) == ("t7", "night shift", False)
    assert [path.name for path in scene.outbox.iterdir()] == ["supervisor_result_pause_t7.json"]
    (row,) = scene.trail()
    assert row["task_id"] == "t7"
    assert row["label"].endswith(" - night shift")
    assert json.loads(row["details_json"])["label"] == "night shift"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("supervisor_dance_OrionMX_t7.flag", b"{}"),
        ("supervisor_dance_OrionMX.flag", b'{"task_id": "t7"}'),
        ("supervisor_pause_OrionMX_t 1.flag", b'{"task_id": "t7"}'),
    ],
)
def test_a_flag_whose_name_says_nothing_keeps_its_id_too(scene: Scene, name: str, content: bytes) -> None:
    scene.drop(content, name)
    assert scene.sweep() == SweepResult(rejected=1)
    (result,) = scene.results()
    assert (result["task_id"], result["worker_id"]) == ("t7", "OrionMX")
    assert scene.trail()[0]["task_id"] == "t7"


@pytest.mark.parametrize("content", [b'{"task_id": "../../etc/x"}', b'{"task_id": 7, "label": "\\n"}', b"[]"])
def test_an_id_or_label_that_is_none_is_not_kept(scene: Scene, content: bytes) -> None:
    scene.drop(content, "supervisor_dance_OrionMX.flag")
    assert scene.sweep() == SweepResult(rejected=1)
    (result,) = scene.results()
    assert result["task_id"].startswith("task_")
    assert result["label"] is None


@pytest.mark.parametrize("name", ["supervisor_pause_orionmx.flag", "supervisor_resume_ORIONMX_t7.flag"])
def test_a_worker_in_another_case_is_rejected_with_the_right_name(scene: Scene, name: str) -> None:
    scene.drop(b'{"task_id": "t7"}', name)
    assert scene.sweep() == SweepResult(rejected=1)
    (reason,) = scene.rejected().values()
    assert "but OrionMX. Flags need the exact name." in reason
    (result,) = scene.results()
    assert (result["task_id"], result["worker_id"]) == ("t7", "OrionMX")
    assert scene.trail()[0]["target_id"] == "OrionMX"
    assert scene.queued() == []


@pytest.mark.parametrize("beat", ["watcher_heartbeat_orionmx.json", "supervisor_heartbeat_orionmx.json"])
def test_a_worker_of_another_host_that_differs_only_in_case_keeps_its_flags(scene: Scene, beat: str) -> None:
    folder = scene.host.config.folder("state")
    folder.mkdir()
    (folder / beat).write_text("{}")
    path = scene.drop({}, "supervisor_pause_orionmx.flag")
    assert scene.sweep() == SweepResult()
    assert path.exists()
    assert scene.trail() == []


def test_the_answer_of_a_flag_does_not_depend_on_how_its_content_is_broken(scene: Scene) -> None:
    scene.drop(b'{"label": ', "supervisor_pause_OrionMX_t7.flag")
    scene.sweep()
    scene.wait(60)
    assert scene.sweep() == SweepResult(rejected=1)
    assert scene.results()[0]["task_id"] == "t7"
