"""A job that exited with code 0 is finished: without a daemon, a pass and `status` say so, and don't run it again."""

from __future__ import annotations

from pathlib import Path

from tests.support.homes import a_home
from tests.support.waiting import wait_until


def test_a_finished_job_is_healthy_without_a_daemon_and_is_not_run_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    program = f"import time; open({str(runs)!r}, 'a').write('x'); time.sleep(0.5)"
    job = {"command": ["{python}", "-c", program], "start_grace_seconds": 0.05, "heartbeat_max_age_seconds": 0}
    with a_home(tmp_path / "home", {"OrionMX": job}) as home:
        home.start_daemon()
        wait_until(lambda: "code 0" in home.worker("OrionMX")["reason"], 20, "it has finished")
        assert home.supervisor("daemon", "stop").returncode == 0
        shown = home.json("status", "--worker", "OrionMX")["workers"][0]
        assert ("code 0" in shown["reason"], shown["state"], shown["pid"]) == (True, "stopped", None)
        assert home.supervisor("status", "--worker", "OrionMX").returncode == 0
        for options in ((), ("--heal",)):
            assert home.supervisor("once", *options).returncode == 0
        home.start_daemon()
        assert home.supervisor("status").returncode == 0
        assert runs.read_text() == "x"
        assert home.json("send", "restart OrionMX", "--wait")["success"]
        assert runs.read_text() == "xx", "a person may run it again"


def test_a_failed_start_is_not_called_started(tmp_path: Path) -> None:
    job = {"command": ["{python}", "-c", "raise SystemExit(3)"], "start_grace_seconds": 5}
    with a_home(tmp_path / "home", {"OrionMX": job}) as home:
        assert home.supervisor("once", "--heal").returncode == 1
        events = home.supervisor("logs").stdout
    assert "OrionMX can't start" in events
    assert "pass for OrionMX: nothing to do" in events
