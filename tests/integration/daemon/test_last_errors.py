"""A crash and a forced kill are seen: in the status of the worker, and as an event in the log."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.homes import a_home
from tests.support.waiting import wait_until

CRASHING = [sys.executable, "-c", "import time; time.sleep(0.5); raise SystemExit(3)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]


def test_a_crash_is_the_last_error_and_a_forced_kill_is_an_event(tmp_path: Path) -> None:
    usual = {"start_grace_seconds": 0.3, "heartbeat_max_age_seconds": 0}
    workers = {
        "crasher": {"command": CRASHING, "restart": {"policy": "never"}, **usual},
        "stubborn": {"command": STUBBORN, "stop_timeout_seconds": 0.5, **usual},
    }
    with a_home(tmp_path, workers) as home:
        home.start_daemon()
        wait_until(lambda: home.worker("crasher")["last_error"], 20, "the crash is its last error")
        crasher, stubborn = home.worker("crasher"), home.worker("stubborn")
        assert "code 3" in crasher["last_error"]
        assert crasher["last_health_at"]
        assert stubborn["last_error"] is None
        table = home.supervisor("status").stdout
        assert "CHECKED" in table
        assert "code 3" in table
        wait_until(lambda: "up" in home.output("stubborn").read_text(), 10, "it ignores SIGTERM")
        pid = home.worker("stubborn")["pid"]
        home.supervisor("send", "pause stubborn", "--wait")
        lines = home.supervisor("daemon", "logs", "--json", "-n", "200").stdout.splitlines()
        events = [json.loads(line) for line in lines]
        (killed,) = [event for event in events if event.get("event") == "worker.killed"]
        assert (killed["worker_id"], killed["pids"]) == ("stubborn", [pid])
