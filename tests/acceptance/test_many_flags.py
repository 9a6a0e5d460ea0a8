"""Five hundred flags dropped at once by four writers: each handled once, in order for each worker."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.homes import Home, a_home, demo_command
from tests.support.programs.warm import forked
from tests.support.sampling import rounds
from tests.support.waiting import wait_until

WORKERS = ("North", "South", "West")
WRITERS = 4
FLAGS = rounds(500, sample=60)
SAME_TASK = "task_the_same"
FIRST_TIME = 1_770_000_000
HANDLERS = ("pause", "resume")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Three workers that are quick to start, and not started by themselves."""
    worker = {"command": demo_command(), "start_grace_seconds": 0.01, "stop_timeout_seconds": 5, "enabled": False}
    with a_home(tmp_path / "home", dict.fromkeys(WORKERS, worker)) as made:
        made.inbox.mkdir()
        yield made


def write(inbox: Path, writer: int, names: list[str]) -> None:
    """Drop these flags, as another program would: a temporary file, then a rename."""
    for name in names:
        temporary = inbox / f".{name}.{writer}.tmp"
        temporary.write_text(json.dumps({"label": f"writer {writer}"}))
        temporary.rename(inbox / name)


def drop(inbox: Path, names: list[list[str]]) -> None:
    context = forked()
    writers = [context.Process(target=write, args=(inbox, number, mine)) for number, mine in enumerate(names)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0


def flag(worker: str, task_id: str, handler: str = "pause") -> str:
    return f"supervisor_{handler}_{worker}_{task_id}.flag"


def wait_for_all(home: Home, count: int) -> None:
    wait_until(lambda: len(list(home.outbox.glob("*.json"))) == count, 90, f"{count} results")
    wait_until(lambda: not any((home.inbox / "processing").iterdir()), 10, "nothing is left in processing")


def filing_times(home: Home) -> dict[str, str]:
    """The file time of each flag, as the ledger has it."""
    with closing(sqlite3.connect(home.state_dir / "ledger.db")) as ledger:
        return dict(ledger.execute("SELECT task_id, filed_at FROM jobs_t"))


@pytest.mark.sampled
def test_each_of_500_flags_of_four_writers_is_handled_once(home: Home) -> None:
    home.start_daemon()
    names: list[list[str]] = [[] for _ in range(WRITERS)]
    for number in range(FLAGS - WRITERS):
        worker = WORKERS[number % len(WORKERS)]
        names[number % WRITERS].append(flag(worker, f"task_{number:04d}"))
    for mine in names:
        mine.insert(len(mine) // 2, flag("North", SAME_TASK))
    assert sum(map(len, names)) == FLAGS
    drop(home.inbox, names)

    different = FLAGS - WRITERS + 1
    wait_for_all(home, different)
    rows = home.audit()
    assert Counter(row["task_id"] for row in rows).most_common(1)[0][1] == 1, "no task has two audit rows"
    assert len(rows) == different
    assert {row["outcome"] for row in rows} == {"success"}
    assert not list(home.inbox.glob("*.flag"))
    assert home.supervisor("audit", "verify").returncode == 0
    filed = filing_times(home)
    for worker in WORKERS:
        for writer in range(WRITERS):
            those = [row for row in rows if row["target_id"] == worker and row["label"].endswith(f"writer {writer}")]
            times = [filed[row["task_id"]] for row in those if row["task_id"] != SAME_TASK]
            assert len(times) > FLAGS // WRITERS // len(WORKERS) - 5
            assert times == sorted(times), "what one writer dropped for one worker ran in the order of the file times"


def test_flags_that_wait_are_handled_by_priority_and_then_by_file_time(home: Home) -> None:
    """The names sort against the times on purpose."""
    expected: dict[str, list[str]] = {worker: [] for worker in WORKERS}
    for number in range(30):
        worker = WORKERS[number % len(WORKERS)]
        task_id = f"task_{99 - number:04d}"
        path = home.inbox / flag(worker, task_id, HANDLERS[number % 2])
        path.touch()
        os.utime(path, (FIRST_TIME + number, FIRST_TIME + number))
        expected[worker].append(task_id)
    home.start_daemon()
    wait_for_all(home, 30)
    rows = home.audit()
    assert {worker: [row["task_id"] for row in rows if row["target_id"] == worker] for worker in WORKERS} == expected
