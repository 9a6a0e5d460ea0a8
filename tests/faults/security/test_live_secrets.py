"""A secret that a live reload brings: it's masked in everything that is shown and stored, whole and in halves."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from tests.support.homes import a_home, demo_command
from tests.support.waiting import wait_until

SECRET = "correct-horse-battery-staple-4711"
TAIL_BYTES = 8 * 1024
LEAK = f"""
import os, sys
secret = os.environ["PASSWORD"]
print("the password is", secret)
print(secret + "x" * ({TAIL_BYTES} - 12), end="")  # only its second half is within the last bytes
sys.exit(3)
"""


def test_a_worker_that_was_added_while_the_daemon_runs_leaks_nothing(tmp_path: Path) -> None:
    usual = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
    with a_home(tmp_path / "home", {"OrionMX": usual}, slack={"enabled": False}) as home:
        home.start_daemon()
        home.supervisor("send", "diagnostics OrionMX", "--wait")  # it has looked at the secrets once
        document = yaml.safe_load(home.config.read_text())
        document["workers"]["Leaky"] = {
            "command": [sys.executable, "-c", LEAK],
            "env": {"PASSWORD": SECRET},
            "start_grace_seconds": 5,
            "restart": {"max_per_hour": 1, "backoff_seconds": 0.1},
        }
        document["alerts"] = {"start_grace_seconds": 0}
        home.config.write_text(yaml.safe_dump(document))
        wait_until(lambda: "Leaky" in str(home.json("alerts")), 20, "an alert is open")
        commands = (
            ["alerts", "--json"],
            ["alerts"],
            ["status", "--json"],
            ["send", "resume Leaky", "--wait"],
            ["why", "Leaky", "--json"],
            ["why", "Leaky"],
            ["logs", "Leaky"],
            ["history", "Leaky"],
            ["audit", "--json"],
        )
        shown = {" ".join(words): home.supervisor(*words) for words in commands}
        assert "the password is" in shown["logs Leaky"].stdout
        texts = {name: done.stdout + done.stderr for name, done in shown.items()}
        for file in (home.folder / "daemon.log", *home.state_dir.glob("ledger.db*"), *home.state_dir.glob("*.log")):
            texts[file.name] = file.read_bytes().decode(errors="replace")
        for name, text in texts.items():
            for part in (SECRET, SECRET[:12], SECRET[-12:]):
                assert part not in text, (name, text[max(0, text.find(part) - 200) :][:400])
