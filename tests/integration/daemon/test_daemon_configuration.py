"""A whole daemon whose configuration changes under it: who is new runs, who is gone is ended, all others go on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack_playground import Playground
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.slack.slack_home import ACCESS, SlackHome, started
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 30.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    with a_home(tmp_path / "home", {"North": SLEEPER, "South": SLEEPER}, make=Host) as made:
        assert isinstance(made, Host)
        made.start_daemon()
        made.all_run()
        yield made


def with_env(value: str) -> dict[str, Any]:
    return {**SLEEPER, "env": {"LEVEL": value}}


def level(pid: int) -> bool:
    return b"LEVEL=2" in Path(f"/proc/{pid}/environ").read_bytes()


def alive(pid: int | None) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_worker_that_is_added_runs_and_takes_commands_and_flags_without_a_restart(home: Host) -> None:
    daemon, before = home.status()["supervisor"]["pid"], home.all_run()
    home.configure({"North": SLEEPER, "South": SLEEPER, "West": SLEEPER})
    wait_until(lambda: home.pids().get("West"), PATIENCE_SECONDS, "the new one runs")
    assert {name: pid for name, pid in home.all_run().items() if name != "West"} == before
    assert home.json("send", "pause West", "--wait")["success"]
    assert home.pids()["West"] is None
    home.drop_flag("supervisor_resume_West_t1.flag", {})
    wait_until(lambda: home.result("resume", "t1"), PATIENCE_SECONDS, "its flag is taken")
    assert home.pids()["West"]
    assert home.status()["supervisor"]["pid"] == daemon
    assert home.supervisor("status").returncode == 0


def test_a_worker_that_is_removed_is_ended_and_known_no_more(home: Host) -> None:
    before = home.all_run()
    home.configure({"North": SLEEPER})
    wait_until(lambda: not alive(before["South"]), PATIENCE_SECONDS, "it is ended")
    wait_until(lambda: home.pids() == {"North": before["North"]}, PATIENCE_SECONDS, "it is not shown any more")
    refused = home.supervisor("send", "pause South", "--wait")
    assert refused.returncode == 2, "the shell knows it no more"
    wait_until(lambda: "South is removed" in home.log(), PATIENCE_SECONDS, "the log says so")
    assert not (home.state_dir / "workers" / "South.json").exists()


def test_only_who_changed_is_restarted(home: Host) -> None:
    before = home.all_run()
    home.configure({"North": SLEEPER, "South": with_env("2")})
    wait_until(lambda: home.pids()["South"] not in (None, before["South"]), PATIENCE_SECONDS, "it is restarted")
    after = home.all_run()
    assert after["North"] == before["North"]
    assert level(after["South"])
    assert not alive(before["South"])
    assert sorted(home.everybody()) == sorted(after.values())


def test_two_that_change_are_announced_and_go_one_by_one(home: Host) -> None:
    before = home.all_run()
    slow = {**with_env("2"), "start_grace_seconds": 0.5}
    home.configure({"North": slow, "South": slow})
    most_away = 0

    def both() -> bool:
        nonlocal most_away
        now = home.pids()
        living = [name for name, pid in now.items() if pid and (pid != before[name] or alive(pid))]
        most_away = max(most_away, len(before) - len(living))
        return all(pid and pid != before[name] for name, pid in now.items())

    wait_until(both, PATIENCE_SECONDS, "both are restarted")
    assert most_away <= 1
    after = home.all_run()
    assert all(level(pid) for pid in after.values())
    log = home.log()
    assert "restarts 2 workers, one at a time: North, South" in log
    steps = re.findall(r"(North|South) (?:stopped|started) \(", log[log.index("one at a time") :])
    assert steps in (["North", "North", "South", "South"], ["South", "South", "North", "North"])


def test_an_invalid_file_keeps_the_last_good_one_is_said_loudly_and_recovers(home: Host) -> None:
    before, version = home.all_run(), home.version()
    good = home.config.read_text()
    home.config.write_text(good.replace("stop_timeout_seconds", "stop_timeoutt", 1))
    wait_until(lambda: not home.status()["healthy"], PATIENCE_SECONDS, "it is noticed")
    supervisor = home.status()["supervisor"]
    assert "stop_timeoutt" in supervisor["configuration"]["problem"]
    assert supervisor["configuration"]["version"] == version
    shown = home.supervisor("status")
    assert shown.returncode == 1
    assert "stop_timeoutt" in shown.stdout
    assert f"version {version} stays active" in " ".join(shown.stdout.split())
    assert home.pids() == before
    assert "can't be used" in home.log()
    home.config.write_text(good)
    wait_until(lambda: home.status()["healthy"], PATIENCE_SECONDS, "it is right again")
    assert home.supervisor("status").returncode == 0
    assert (home.pids(), home.version()) == (before, version)


def test_one_that_was_removed_while_no_daemon_ran_is_ended_by_the_next(home: Host) -> None:
    before = home.all_run()
    assert home.supervisor("stop").returncode == 0
    home.configure({"North": SLEEPER})
    assert alive(before["South"])
    home.started()
    wait_until(lambda: not alive(before["South"]), PATIENCE_SECONDS, "it is ended")
    assert home.everybody() == [before["North"]]


def test_one_that_is_disabled_is_ended_and_enabled_again_it_runs(home: Host) -> None:
    before = home.all_run()
    home.configure({"North": SLEEPER, "South": {**SLEEPER, "enabled": False}})
    wait_until(lambda: not alive(before["South"]), PATIENCE_SECONDS, "it is ended")
    wait_until(lambda: home.worker("South")["state"] == "stopped", PATIENCE_SECONDS, "it is shown so")
    assert home.supervisor("status").returncode == 0, "nobody wants it to run"
    home.configure({"North": SLEEPER, "South": SLEEPER})
    wait_until(lambda: home.pids()["South"], PATIENCE_SECONDS, "it runs again")
    assert home.pids()["North"] == before["North"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "content", ["", "[]", '{"running": true', '{"running": "yes", "pid": "x"}', "\x00\xff", "folder"]
)
def test_a_damaged_word_of_the_last_daemon_harms_nothing(home: Host, content: str) -> None:
    before = home.all_run()
    assert home.supervisor("stop").returncode == 0
    path = home.state_dir / "runtime.json"
    path.unlink()
    if content == "folder":
        path.mkdir()
    else:
        path.write_bytes(content.encode("latin-1"))
    status = home.supervisor("status", "--json")
    assert (status.returncode, status.stderr) == (1, "")
    assert json.loads(status.stdout)["supervisor"]["state"] in ("stopped", "stale")
    pid = home.started()
    assert home.all_run() == before
    assert home.supervisor("status").returncode == 0
    if content != "folder":
        assert json.loads(path.read_text())["pid"] == pid
    assert home.supervisor("stop").returncode == 0
    assert sorted(home.everybody()) == sorted(before.values())


async def test_slack_knows_a_worker_that_is_added(tmp_path: Path, slack: Playground) -> None:
    settings = {"access": ACCESS, "alert_channel": "C0OPS"}
    with a_home(tmp_path / "home", {"North": SLEEPER}, make=SlackHome, slack=settings) as home:
        await started(home, slack)
        operator = slack.user("operator")
        await operator.slash("/supervisor pause West")
        document = yaml.safe_load(home.config.read_text())
        home.config.write_text(yaml.safe_dump({**document, "workers": {"North": SLEEPER, "West": SLEEPER}}))
        home.worker_ids = ("North", "West")
        both = lambda: len(home.status()["workers"]) == 2  # noqa: E731
        await asyncio.to_thread(wait_until, both, PATIENCE_SECONDS, "the daemon knows it")
        await operator.slash("/supervisor pause West")
        await slack.channel("ops").shows("West paused")
