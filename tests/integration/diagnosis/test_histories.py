"""Histories out of a real ledger: flips, commands and samples of a span of time, and what is without any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.diagnosis.history import MOST, histories
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import Condition
from tests.support.alerts.condition_changes import flip_to, hours
from tests.support.homes import Home, a_home, demo_command

NOW = datetime.now(UTC)
DAY = timedelta(hours=24)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    workers = {f"W{number}": {"command": demo_command(), "start_grace_seconds": 0.1} for number in range(MOST + 5)}
    with a_home(tmp_path, workers) as made:
        yield made


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with opened_ledger(load_supervisor_config(home.config)) as made:
        yield made


def test_what_held_and_what_was_done_in_the_span_and_nothing_of_before(home: Home, ledger: Ledger) -> None:
    changes = hours(NOW, (40, Condition.WELL), (30, Condition.DOWN), (20, Condition.WELL), (2, Condition.STALE))
    flip_to(ledger, "TestHost", "W0", *changes)
    done = home.supervisor("send", "pause W0 for a while")
    assert done.returncode == 0, done.stderr
    home.supervisor("once", "--worker-id", "W0")
    until = datetime.now(UTC)
    config = load_supervisor_config(home.config)
    told, silent = histories(ledger, config, ("W0", "W1"), until - DAY, until)
    held = [(each.condition, round(each.length.total_seconds() / 3600)) for each in told.stretches]
    assert held == [(Condition.DOWN, 4), (Condition.WELL, 18), (Condition.STALE, 2)]
    assert told.uptime.share == pytest.approx(18 / 24, abs=0.01)
    (mark,) = told.marks
    assert mark.name == "pause"
    assert (silent.known, silent.marks, silent.uptime.share) == (False, (), None)
    shown = home.supervisor("send", "history W0").stdout
    assert "W0 in the last 24 hours: healthy 75" in shown
    assert "▁▁▇" in shown, "down for some hours, then healthy"
    assert "Longest problem: down for" in shown
    assert "pause by" in shown
    document = home.json("send", "history all 7d")
    assert len(document) == MOST
    assert [each["command"] for each in document[0]["commands"]] == ["pause"]
    assert "5 more workers aren't shown" in home.supervisor("send", "history all").stdout
    json.dumps(document)
