"""A job that exited with code 0 is finished: without a daemon, a pass and `status` say so, and don't run it again."""

from __future__ import annotations

from pathlib import Path

from tests.support.homes import a_home
from tests.support.waiting import wait_until


def test_a_finished_job_is_healthy_without_a_daemon_and_is_not_run_again(tmp_path: Path) -> None:
    job = {"command": ["{python}", "-c", "import time; time.sleep(0.5)"], "start_grace_seconds": 0.1}
    job |= {"restart": {"policy": "on-failure"}, "heartbeat_max_age_seconds": 0}
    with a_home(tmp_path / "home", {"OrionMX": job}) as home:
        home.start_daemon()
        wait_until(lambda: "code 0" in home.worker("OrionMX")["reason"], 20, "it has finished")
        assert home.supervisor("daemon", "stop").returncode == 0
        shown = home.json("status", "--worker", "OrionMX")["workers"][0]
        assert ("code 0" in shown["reason"], shown["state"], shown["pid"]) == (True, "stopped", None)
        assert home.supervisor("status", "--worker", "OrionMX").returncode == 0
        for options in ((), ("--heal",)):
            assert home.supervisor("once", *options).returncode == 0
        assert (
            "started"
            not in (home.state_dir / "supervisor.log").read_text().rpartition("supervisor TestHost stopped")[2]
        )
