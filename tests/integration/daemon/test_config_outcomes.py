"""The record of a changed configuration says what became of the workers, and a corrected mistake leaves no trace."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until

CRASHING = [sys.executable, "-c", "import time; time.sleep(0.8); raise SystemExit(3)"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    worker = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"backoff_seconds": 1}}
    with a_home(tmp_path, {"normal": dict(worker), "other": dict(worker)}) as made:
        made.start_daemon()
        wait_until(lambda: made.status()["healthy"], 20, "all are healthy")
        yield made


def edit(home: Home, worker_id: str, **settings: Any) -> None:
    document = yaml.safe_load(home.config.read_text())
    document["workers"][worker_id].update(settings)
    temporary = home.config.with_suffix(".tmp")
    temporary.write_text(yaml.safe_dump(document))
    temporary.replace(home.config)


def record(home: Home, version: int) -> dict[str, Any]:
    """The newest record of this version, once there is one."""

    def found() -> dict[str, Any] | None:
        rows = [row for row in home.audit() if row["action"] == "CONFIG_APPLIED"]
        told = [{**row, "details": json.loads(row["details_json"])} for row in rows]
        return next((row for row in told if row["details"]["version"] == version), None)

    row = wait_until(found, 30, f"version {version} is on record")
    assert row is not None
    return row


def test_a_mistyped_program_is_a_failure_and_its_correction_restarts_nobody(home: Home) -> None:
    (pid,) = home.running_copies("normal")
    edit(home, "normal", command=["/nowhere/pyhton3", "work.py"])
    failed = record(home, 2)
    assert (failed["outcome"], failed["details"]["workers"]) == ("failure", {"normal": "kept"})
    assert "older settings" in home.worker("normal")["reason"]
    edit(home, "normal", command=demo_command())
    corrected = record(home, 3)
    assert (corrected["outcome"], corrected["affected"]) == ("success", {})
    wait_until(lambda: home.status()["healthy"], 20, "nothing is wrong any more")
    assert (home.worker("normal")["last_error"], home.running_copies("normal")) == (None, [pid])


def test_a_worker_that_crashes_soon_after_its_start_is_no_success_and_later_records_are_not_about_it(
    home: Home,
) -> None:
    edit(home, "normal", command=CRASHING)
    row = record(home, 2)
    assert (row["outcome"], row["details"]["workers"]) == ("failure", {"normal": "failed"})
    edit(home, "other", env={"MODE": "fast"})
    row = record(home, 3)
    assert row["outcome"] == "success"
    assert (row["details"]["changes"], row["details"]["workers"]) == (["other: env.MODE"], {"other": "done"})
    assert row["affected"] == {"other": "restarted"}
