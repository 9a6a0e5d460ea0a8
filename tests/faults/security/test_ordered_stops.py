"""What the supervisor itself stops, restarts or replaces raises no alert and counts as no restart of a worker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack_playground import Playground
from supervisor_core.workers.restarts import history as starts
from tests.support.code.commits import straight
from tests.support.programs.armed import armed
from tests.support.slack.code_homes import CodeInSlack, a_code_home_in_slack
from tests.support.slack.slack_home import asked, sent_by_shell, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)

WORKERS = ("fetcher", "mailer", "reporter")
CHANNEL = "C0OPS"

WATCHER = """
import json, os, signal, subprocess, sys
code = open(__file__).read()
if "BROKEN" in code.splitlines()[0] and sys.argv[2] == "fetcher":
    sys.exit(3)
lingers = "signal.signal(15, lambda *_: (time.sleep(0.3), sys.exit())); print(1, flush=True); signal.pause()"
helper = [sys.executable, "-ISc", "import signal, sys, time; " + lingers]
subprocess.Popen(helper, stdout=subprocess.PIPE).stdout.readline()
place = f"started_{sys.argv[2]}.json"
with open(place + ".tmp", "w") as file:
    json.dump({"pid": os.getpid(), "code": code}, file)
os.replace(place + ".tmp", place)
signal.pause()
"""
"""Its helper outlives it by a moment: so long its process is gone and its stop isn't over."""


def watcher(version: object) -> str:
    return f"VERSION = {version!r}\n{WATCHER}"


HISTORY = straight(*({"watcher.py": watcher(number)} for number in range(1, 8)))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CodeInSlack]:
    with a_code_home_in_slack(tmp_path, WORKERS, HISTORY, alert_channel=CHANNEL) as made:
        document = yaml.safe_load(made.config.read_text())
        for worker in document["workers"].values():
            worker["restart"] = {"backoff_seconds": 0}
        document["workers"]["fetcher"]["start_grace_seconds"] = 1  # a busy machine needs so long to run into BROKEN
        made.config.write_text(yaml.safe_dump(document))
        yield made


def flips_of(home: CodeInSlack, worker_id: str) -> list[str]:
    """The conditions that a worker had, in their order."""
    query = "select new from flips_t where target_type = 'worker' and target_id = '{}' order by flip_id"
    return [row["new"] for row in home.rows(query.format(worker_id))]


def counted_starts(home: CodeInSlack, worker_id: str) -> int:
    return len(starts.read_starts(home.state_dir, worker_id))


def words_about_restarts(slack: Playground) -> list[str]:
    said = [str(each["text"]) for each in slack.channel("ops").messages()]
    return [text for text in said if "restarted automatically" in text]


async def until(condition: Any, what: str) -> None:
    await asyncio.to_thread(wait_until, condition, 20, what)


async def test_code_changes_and_their_rollbacks_are_no_trouble_of_any_worker_and_real_trouble_is(
    home: CodeInSlack, slack: Playground
) -> None:
    await started(home, slack)
    await sent_by_shell(home, "rollback mailer 1 slow reader")
    await sent_by_shell(home, "rollback fetcher 1 slow reader")

    (pid,) = home.running_copies("mailer")
    os.kill(pid, signal.SIGKILL)
    await until(lambda: flips_of(home, "mailer")[-2:] == ["down", "well"], "the kill is told of")
    (task,) = home.rows("select task_id from jobs_t order by job_id desc limit 1")
    await sent_by_shell(home, f"undo mailer {task['task_id']}")
    await sent_by_shell(home, "rollback reporter 1 slow reader")

    home.clones.comes_in({"watcher.py": watcher("BROKEN")})
    failed = await asyncio.to_thread(home.supervisor, "send", "update mailer", "--wait")
    assert failed.returncode != 0
    await asyncio.to_thread(home.started_from, "fetcher")
    await sent_by_shell(home, "restart reporter")
    await settled(home)

    assert flips_of(home, "fetcher") == ["well"]
    assert flips_of(home, "reporter") == ["well"]
    assert flips_of(home, "mailer") == ["well", "down", "well"]
    alerts = home.rows("select target_type, target_id, decided from alerts_t")
    assert [(row["target_id"], row["decided"]) for row in alerts] == [("mailer", "healed")], alerts
    assert len(words_about_restarts(slack)) == 1
    assert {each: counted_starts(home, each) for each in WORKERS} == {"fetcher": 0, "mailer": 1, "reporter": 0}
    (why,) = await asked(home, "send", "why fetcher")
    assert (why["cause"], why["fine"]) == ("well", True)


@pytest.mark.parametrize("point", ["worker.stop:after", "worker.start:after#4"])
async def test_a_code_change_cut_off_by_kill_9_is_no_trouble_of_the_workers_that_it_stopped(
    home: CodeInSlack, slack: Playground, point: str
) -> None:
    daemon = await started(home, slack, armed(point))
    await asyncio.to_thread(home.supervisor, "send", "rollback mailer 1 slow reader")
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL
    await started(home, slack)
    for worker_id in WORKERS:
        await asyncio.to_thread(home.started_from, worker_id)
        assert home.runs_what_is_on_disk(worker_id)
    await settled(home)
    for worker_id in WORKERS:
        await until(partial(flips_of, home, worker_id), f"{worker_id} is on record")
    assert {each: flips_of(home, each) for each in WORKERS} == {each: ["well"] for each in WORKERS}
    assert {each: counted_starts(home, each) for each in WORKERS} == dict.fromkeys(WORKERS, 0)
    assert words_about_restarts(slack) == []
