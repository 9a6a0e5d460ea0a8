"""How many were killed for lack of memory, by the kernel; and what a worker's past makes of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.host import disks as memory_kills
from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.workers.restarts.history import RestartHistory, read_history
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "vmstat"
    monkeypatch.setattr(memory_kills, "VMSTAT", path)
    monkeypatch.setattr(memory_kills, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory_kills, "OWN_GROUP", tmp_path / "own")
    return path


def counts(path: Path, number: int) -> None:
    path.write_text(f"nr_free_pages 1000\noom_kill {number}\noom_kill_disable 0\n")


def lived(folder: Path, generation: str = "g1") -> None:
    past = RestartHistory(folder, "North")
    past.ended(WorkerRecord("North", generation, RUNNING, started_at=NOW.isoformat()), -9, NOW + timedelta(seconds=9))
    past.decided(RestartDecision(Next.REST, RestartReason.POLICY_NEVER, "rests"))


def began(folder: Path) -> None:
    RestartHistory(folder, "North").began(
        WorkerRecord("North", "g1", RUNNING, started_at=NOW.isoformat()), NOW, asked=True
    )


def test_the_host_says_it_else_the_own_control_group_else_nobody(kernel: Path, tmp_path: Path) -> None:
    assert memory_kills.memory_kills() is None
    (tmp_path / "own").write_text("0::/system.slice/supervisor-chatops.service\n")
    group = tmp_path / "cgroup" / "system.slice" / "supervisor-chatops.service"
    group.mkdir(parents=True)
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert memory_kills.memory_kills() == 2
    counts(kernel, 5)
    assert memory_kills.memory_kills() == 5


@pytest.mark.parametrize(("before", "after", "known"), [(3, 4, 1), (3, 3, 0), (7, 1, None), (None, 4, None)])
def test_a_life_knows_how_many_were_killed_in_it(
    kernel: Path, tmp_path: Path, before: int | None, after: int, known: int | None
) -> None:
    if before is not None:
        counts(kernel, before)
    began(tmp_path)
    counts(kernel, after)
    lived(tmp_path)
    (life,), _ = read_history(tmp_path, "North")
    assert life.memory_kills == known, "a count that is smaller is another boot's"


def test_of_a_launch_that_nobody_noted_it_is_not_known(kernel: Path, tmp_path: Path) -> None:
    counts(kernel, 1)
    lived(tmp_path, "another")
    (life,), _ = read_history(tmp_path, "North")
    assert life.memory_kills is None
