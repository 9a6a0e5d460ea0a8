"""`kill -9` of the daemon at any moment of its restart in place, while commands come in.

Its workers keep running as one copy each, and every command is carried out once, or reported as interrupted.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor_core.host.process_facts.identity import identify
from supervisor_core.host.process_facts.signals import KILL, send, wait_exit
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.sampling import rounds
from tests.support.waiting import wait_until

ROUNDS = rounds(12, sample=3)
RESTART_SECONDS = 1.5
"""Longer than a restart in place takes on a free machine: some daemons are killed after it."""

PATIENCE_SECONDS = 30.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    with a_home(tmp_path / "home", {"North": SLEEPER, "South": SLEEPER}, make=Host) as made:
        assert isinstance(made, Host)
        yield made


@pytest.mark.sampled(1)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(4))
def test_workers_run_on_and_each_command_runs_once(home: Host, seed: int) -> None:
    moments = random.Random(seed)
    home.started()
    north = home.all_run()["North"]
    sent: list[str] = []

    def all_have_run() -> bool:
        return {row["task_id"] for row in home.audit()} >= set(sent)

    with ThreadPoolExecutor(1) as threads:
        for number in range(ROUNDS):
            daemon = identify(home.daemon())
            assert daemon is not None
            restart = threads.submit(home.quick, "daemon", "restart")
            time.sleep(moments.uniform(0, RESTART_SECONDS))
            sent.append(home.json("send", f"{('pause', 'resume')[number % 2]} South")["task_id"])
            time.sleep(moments.uniform(0, RESTART_SECONDS / 3))
            send(daemon, KILL)
            assert wait_exit(daemon, PATIENCE_SECONDS)
            restarted = restart.result(PATIENCE_SECONDS * 3)
            assert restarted.returncode in (0, 1), restarted
            home.quick("start")
            wait_until(all_have_run, PATIENCE_SECONDS, "the command has run")
            south = home.pids()["South"]
            (row,) = home.audit(sent[-1])
            assert row["outcome"] in ("success", "interrupted")
            if row["outcome"] == "success":
                assert (south is None) == (number % 2 == 0)
            assert sorted(home.everybody()) == sorted(pid for pid in (north, south) if pid)
    assert Counter(row["task_id"] for row in home.audit()) == dict.fromkeys(sent, 1)
