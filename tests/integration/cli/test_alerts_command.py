"""The desk's alerts from the shell: what is open, who looks after it, who is muted; without a daemon or Slack."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.cli import main
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.homes import ROOT


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path) as made:
        made.well("North", "South")
        made.down("North")
        yield made


class Shell:
    """Runs the program in this process."""

    def __init__(self, desk: AlertDesk, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = str(desk.folder / "config.yaml")
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        assert main([words[0], "--config", self._config, *words[1:]]) == code
        said = self._capsys.readouterr()
        return said.out + said.err

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def shell(desk: AlertDesk, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(desk, capsys)


def test_an_alert_has_the_keys_of_the_reference(shell: Shell) -> None:
    text = (ROOT / "tests/reference/templates/command-line/alerts.md").read_text()
    keys = set(re.findall(r"`(\w+)`", text)) - {"acknowledge", "snooze", "id", "name", "worker_id", "uptime"}
    (alert,) = shell.json("alerts")
    assert len(keys) > 15
    assert keys - {"24h", "7d", "30d"} <= alert.keys()


def test_open_alerts_are_listed_with_the_reason_by_name(desk: AlertDesk, shell: Shell) -> None:
    (alert,) = shell.json("alerts")
    assert {
        name: alert[name] for name in ("target_type", "target_id", "condition", "severity", "state", "decided")
    } == {
        "target_type": "worker",
        "target_id": "North",
        "condition": "down",
        "severity": "critical",
        "state": "open",
        "decided": "first",
    }
    listed = shell("alerts").splitlines()
    assert listed[0].split() == ["STATE", "SEVERITY", "TARGET", "CONDITION", "SINCE", "ALERT", "WHY"]
    assert listed[1].startswith("open")
    assert alert["alert_id"] in listed[1]
    desk.well("North")
    assert shell("alerts") == "No open alerts.\n"
    assert shell.json("alerts") == []


def test_whoever_acknowledges_at_the_shell_is_named_and_once_it_is_over_that_is_said(
    desk: AlertDesk, shell: Shell
) -> None:
    alert_id = desk.one("North").alert_id
    assert shell("alerts", "acknowledge", alert_id).startswith("Acknowledged: North is down: ")
    (alert,) = shell.json("alerts")
    assert alert["acknowledged_by"]["id"].startswith("cli:")
    assert shell.json("alerts", "snooze", alert_id)["state"] == "snoozed"
    assert [action for action, _ in desk.trail()] == ["ALERT_ACKNOWLEDGED", "ALERT_SNOOZED"]
    desk.well("North")
    assert "already closed" in shell("alerts", "acknowledge", alert_id, code=1)
    assert "No alert" in shell("alerts", "acknowledge", "nothing", code=2)
    assert "Name the alert" in shell("alerts", "acknowledge", code=2)


def test_a_mute_says_until_when_and_that_it_lasts_an_hour_where_nothing_is_said(desk: AlertDesk, shell: Shell) -> None:
    said = shell("mute", "North")
    assert said.startswith("North: muted for 1 h, until ")
    assert "Alerts still open when the mute ends will be posted." in said
    answer = shell.json("mute", "all", "2h", "moving", "disks")
    assert (answer["workers"], answer["message"][:29]) == (["North", "South"], "North, South: muted for 2 h, ")
    assert "North is muted until" in shell("alerts")
    assert shell("alerts").count(": moving disks") == 2
    (alert,) = shell.json("alerts")
    assert alert["muted_until"] == answer["until"]
    assert shell("unmute", "North") == "North: no longer muted.\n"
    assert shell("send", "unmute North") == "Nothing to do: not muted.\n", "the same words, given to send"
    assert shell("mute", "Nrth", code=2)
    actions = [action for action, _ in desk.trail()]
    assert actions == ["MUTED", "MUTED", "MUTED", "UNMUTED"]
