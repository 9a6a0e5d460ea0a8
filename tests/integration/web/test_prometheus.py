"""A real Prometheus scrapes the daemon, and loads the alert rules that we ship."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.daemon.fleets import free_port
from tests.support.homes import ROOT, a_home
from tests.support.skips import skip_or_fail
from tests.support.waiting import wait_until

RULES = ROOT / "docs" / "units" / "prometheus-rules.yaml"
SECONDS = 20.0


def program(name: str) -> str:
    found = shutil.which(name)
    return found or skip_or_fail(f"{name} isn't installed")


def promtool(*words: str, stdin: str = "") -> str:
    done = subprocess.run([program("promtool"), *words], input=stdin, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return str(answer.read().decode())


class Prometheus:
    """A running Prometheus that scrapes one target with our rules."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ready(self) -> bool:
        try:
            return "Ready" in fetched(f"{self._url}/-/ready")
        except OSError:
            return False

    def value(self, query: str) -> str:
        """The value of a query with one result; empty without a result."""
        answer = json.loads(fetched(f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
        found = answer["data"]["result"]
        return str(found[0]["value"][1]) if found else ""

    def rules(self) -> list[dict[str, Any]]:
        groups = json.loads(fetched(f"{self._url}/api/v1/rules"))["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


@contextmanager
def a_prometheus(folder: Path, target: int) -> Iterator[Prometheus]:
    folder.mkdir()
    config = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "supervisor", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([program("prometheus"), *words], cwd=folder, stdout=log, stderr=log)
    try:
        found = Prometheus(port)
        wait_until(found.ready, SECONDS, "Prometheus is ready")
        yield found
    finally:
        running.terminate()
        running.wait(SECONDS)


def test_it_scrapes_the_daemon_evaluates_every_rule_and_notices_its_end(tmp_path: Path) -> None:
    target = free_port()
    with a_home(tmp_path / "home", metrics={"bind": f"127.0.0.1:{target}"}) as home:
        home.start_daemon()
        promtool("check", "metrics", stdin=fetched(f"http://127.0.0.1:{target}/metrics"))
        with a_prometheus(tmp_path / "prometheus", target) as prometheus:
            running = 'supervisor_workers{job="supervisor",state="running"}'
            wait_until(lambda: prometheus.value(running) == "1", SECONDS, "the worker is counted")
            assert prometheus.value('up{job="supervisor"}') == "1"
            wait_until(lambda: all(each["health"] == "ok" for each in prometheus.rules()), SECONDS, "all rules ran")
            # A rule that ran before the first scrape holds until it runs again.
            wait_until(
                lambda: all(each["state"] == "inactive" for each in prometheus.rules()), SECONDS, "no rule complains"
            )
            home.kill_newest_daemon()
            wait_until(
                lambda: (
                    [each["name"] for each in prometheus.rules() if each["state"] != "inactive"] == ["SupervisorDown"]
                ),
                SECONDS,
                "the daemon's absence is noticed",
            )


CASES: dict[str, tuple[dict[str, str], str, str]] = {
    "SupervisorDown": (
        {'up{job="supervisor",instance="OrionMX:9464"}': "0x20"},
        "critical",
        "The supervisor of OrionMX:9464 doesn't answer. Its workers may still run.",
    ),
    "SupervisorNotReady": (
        {'supervisor_ready{instance="OrionMX:9464"}': "0x20"},
        "critical",
        "Workers of OrionMX:9464 aren't supervised. The status page says why.",
    ),
    "WorkersQuarantined": (
        {'supervisor_workers{instance="OrionMX:9464",state="quarantined"}': "2x20"},
        "warning",
        "2 workers of OrionMX:9464 are quarantined after too many restarts.",
    ),
    "MessagesWait": (
        {'supervisor_outbox_oldest_seconds{instance="OrionMX:9464",kind="message"}': "600x20"},
        "warning",
        "Messages of kind message on OrionMX:9464 wait for 10m 0s.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_after_its_time_with_its_words(tmp_path: Path, name: str) -> None:
    series, severity, words = CASES[name]
    labels = next(iter(series)).partition("{")[2].rstrip("}").split(",")
    named = {key: value.strip('"') for key, _, value in (each.partition("=") for each in labels)}
    fired = {"exp_labels": {**named, "severity": severity}, "exp_annotations": {"summary": words}}
    case = {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "1m", "alertname": name, "exp_alerts": []},
            {"eval_time": "15m", "alertname": name, "exp_alerts": [fired]},
        ],
    }
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [case]}))
    promtool("test", "rules", str(file))
