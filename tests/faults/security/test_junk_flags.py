"""Thousands of junk flags: a genuine one is followed at once, and what the junk leaves behind is bounded."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.command import Outcome
from supervisor_core.common.service import Blocking
from supervisor_core.daemon.services.queue_processor import QueueProcessor
from supervisor_core.host import inbox as inbox_module
from supervisor_core.intake import inbox as flag_intake
from supervisor_core.intake.inbox import EACH, FlagIntake, SweepResult
from supervisor_core.jobs import results
from supervisor_core.workers.context import DaemonContext
from tests.integration.intake.test_flag_intake import Scene, scene
from tests.support.daemon.reconciliation import until

__all__ = ["scene"]

KINDS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("supervisor_pause_OrionMX_half{}.flag", lambda path: path.write_bytes(b'{"task_id": ')),
    ("supervisor_pause_OrionMX_list{}.flag", lambda path: path.write_bytes(b"[]")),
    ("supervisor_resume_OrionMX_other{}.flag", lambda path: path.write_bytes(b'{"task_id": "another"}')),
    ("supervisor_dance_OrionMX_{}.flag", lambda path: path.write_bytes(b"")),
    ("supervisor_pause_orionmx_{}.flag", lambda path: path.write_bytes(b"{}")),
    ("supervisor_pause_OrionMX_reserved{}.flag", lambda path: path.write_bytes(b'{"label": "\xc3\xa4"}')),
    ("supervisor_pause_OrionMX_fifo{}.flag", os.mkfifo),
    ("supervisor_pause_OrionMX_folder{}.flag", Path.mkdir),
)
JUNK = 2000


@pytest.fixture(autouse=True)
def all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, not times: a sweep looks at everything however slow the machine is."""
    monkeypatch.setattr(flag_intake, "LOOK_SECONDS", 1e9)


def litter(scene: Scene, number: int = JUNK) -> set[str]:
    scene.inbox.mkdir(exist_ok=True)
    names = set()
    for each in range(number):
        pattern, make = KINDS[each % len(KINDS)]
        make(scene.inbox / pattern.format(each))
        names.add(pattern.format(each))
    return names


def sweep_all(intake: FlagIntake) -> list[SweepResult]:
    sweeps = [intake.sweep()]
    while sweeps[-1].more:
        sweeps.append(intake.sweep())
    return sweeps


def reports(scene: Scene) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((scene.inbox / "rejected").glob("report_*.json"))]


def test_a_genuine_flag_among_two_thousand_is_filed_by_the_first_sweep_and_the_rest_is_summed_up(
    scene: Scene,
) -> None:
    names = litter(scene)
    scene.drop({"task_id": "genuine"}, "supervisor_resume_OrionMX.flag")
    intake = scene.intake()
    sweeps = sweep_all(intake)
    assert [job.task_id for job in sweeps[0].filed] == ["genuine"]
    assert [swept.rejected for swept in sweeps] == [100, 500, 500, 500, 150], "most junk waits for the next sweep"
    assert sweeps[-1].unripe == JUNK / len(KINDS), "half a JSON document gets its five seconds"
    scene.wait(60)
    sweeps += sweep_all(intake)
    assert sum(swept.rejected for swept in sweeps) == JUNK
    assert scene.lies_in() == scene.lies_in("processing") == []
    trail = scene.trail()
    assert {row["action"] for row in trail} == {"REFUSED"}
    clearing = len(sweeps)
    assert len(trail) == clearing * (EACH + 1), "20 rows and one for each sweep"
    assert len(scene.results()) == clearing * EACH
    named = [flag["name"] for report in reports(scene) for flag in report["flags"]]
    alone = [json.loads(row["details_json"]).get("flag") for row in trail]
    assert sorted([*named, *filter(None, alone)]) == sorted(names), "each is named once"
    summed = [json.loads(row["details_json"]) for row in trail if "flag" not in json.loads(row["details_json"])]
    assert sum(row["count"] for row in summed) == len(named)
    assert all(row["examples"] and row["report"].startswith("rejected/report_") for row in summed)


def test_a_genuine_flag_that_comes_while_junk_is_cleared_is_followed_by_the_next_sweep(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flag_intake, "TAKEN", 50)
    litter(scene, 400)
    intake = scene.intake()
    assert intake.sweep().more
    scene.drop({"task_id": "genuine"}, "supervisor_resume_OrionMX.flag")
    swept = intake.sweep()
    assert swept.more
    assert [job.task_id for job in swept.filed] == ["genuine"]


def test_each_junk_flag_is_looked_at_once_before_it_is_cleared(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_intake, "TAKEN", 50)
    looked: list[str] = []
    real = scene.host.inbox.peek_all

    def peek_all(names: list[str]) -> dict[str, bytes | Exception]:
        looked.extend(names)
        return real(names)

    monkeypatch.setattr(scene.host.inbox, "peek_all", peek_all)
    names = litter(scene, 400)
    intake = scene.intake()
    sweep_all(intake)
    assert sorted(looked) == sorted(names)


def test_junk_that_was_replaced_by_a_genuine_flag_is_followed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_intake, "TAKEN", 0)
    path = scene.drop(b"[]")
    intake = scene.intake()
    assert intake.sweep() == SweepResult()
    (path.parent / "other").write_text('{"task_id": "genuine"}')
    (path.parent / "other").rename(path)
    monkeypatch.setattr(flag_intake, "TAKEN", 1)
    assert [job.task_id for job in intake.sweep().filed] == ["genuine"]


def test_flags_for_nobody_here_are_left_however_many_they_are(scene: Scene) -> None:
    scene.inbox.mkdir()
    for number in range(300):
        (scene.inbox / f"random{number}.flag").touch()
        (scene.inbox / f"supervisor_pause_Elsewhere_{number}.flag").touch()
    scene.drop({"task_id": "genuine"})
    (job,) = scene.sweep().filed
    assert job.task_id == "genuine"
    assert len(scene.lies_in()) == 600


def test_the_folder_of_rejected_flags_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "KEPT_REJECTED", 60)
    monkeypatch.setattr(inbox_module, "KEPT_REPORTS", 2)
    monkeypatch.setattr(flag_intake, "TAKEN", 100)
    litter(scene, 800)
    sweep_all(scene.intake())
    lying = scene.lies_in("rejected")
    assert len([name for name in lying if not name.startswith("report_")]) == 60
    assert len(reports(scene)) == 2


def test_the_folder_of_claimed_flags_is_bounded_and_ours_are_spared(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_module, "KEPT_PROCESSING", 10)
    folder = scene.inbox / "processing"
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"supervisor_pause_Elsewhere.flag.t{number}").touch()
        (folder / f"nothing{number}").touch()
    (folder / "supervisor_resume_OrionMX.flag.genuine").write_text("{}")
    assert [job.task_id for job in scene.sweep().filed] == ["genuine"]
    assert len(scene.lies_in("processing")) == 10


def test_the_same_id_a_hundred_times_is_one_command_and_one_result(scene: Scene) -> None:
    for number in range(100):
        scene.drop({"task_id": "again", "label": f"try {number}"})
        for job in scene.sweep().filed:
            if number == 0:
                scene.finish(job, Outcome.done())
    assert len(scene.results()) == 1
    assert [row["action"] for row in scene.trail()] == ["PAUSE"]


def test_no_more_commands_from_flags_wait_for_a_worker_than_it_could_do(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flag_intake, "WAITING", 3)
    for number in range(5):
        scene.drop({}, f"supervisor_pause_OrionMX_n{number}.flag")
    swept = scene.sweep()
    assert (len(swept.filed), swept.rejected) == (3, 2)
    assert "commands from flags already wait for OrionMX" in next(iter(scene.rejected().values()))


def test_the_daemon_delivers_results_until_none_is_left(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a poll in between: before, a hundred left every two seconds."""
    monkeypatch.setattr(results, "AT_ONCE", 10)
    for number in range(35):
        scene.drop({}, f"supervisor_pause_OrionMX_n{number}.flag")
    for job in scene.sweep().filed:
        scene.finish(job, Outcome.done())

    async def story() -> None:
        queue = QueueProcessor(DaemonContext(scene.host, scene.ledger), Blocking(), lambda _: None)
        monkeypatch.setattr(queue, "_poll_seconds", 1000.0)
        stopping = asyncio.Event()
        running = asyncio.create_task(queue.run(stopping))
        await until(lambda: len(list(scene.outbox.glob("*.json"))) == 35, "all results")
        stopping.set()
        await running

    asyncio.run(story())
