"""`supervisor status` against a real daemon and without one: its keys, its targets, its teams, a real terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.cli.status import narrow
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.raw import read_raw
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.teams import TeamManager
from tests.support.homes import Home, a_home, demo_command

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
WORKERS = {
    "OrionMX": {**WORKER, "team": "archive"},
    "West": {**WORKER, "team": "archive", "enabled": False},
    "Alone": {**WORKER, "enabled": False},
}
TEAMS = {"archive": {"objective": "keep the archive flowing"}, "empty": {}}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
SUPERVISOR_KEYS = {"id", "state", "pid", "started_at"}
SERVICE_KEYS = {"state", "health", "reason", "last_health_at", "last_error"}
USAGE_KEYS = {"commit", "memory_bytes", "cpu_seconds"}
WORKER_KEYS = {*SERVICE_KEYS, *USAGE_KEYS, "pid", "paused", "quarantined", "muted_until", "team", "fine"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home", WORKERS, teams=TEAMS) as made:
        yield made


def plain(home: Home, *words: str) -> dict[str, str]:
    done = home.supervisor("status", "--plain", *words)
    assert done.returncode in (0, 1), done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.fixture
def manager(home: Home) -> Iterator[TeamManager]:
    """The home's teams as its daemon brings them into the ledger."""
    home.state_dir.mkdir(mode=0o700)
    with Ledger(home.state_dir / LEDGER_FILE, "TestHost") as ledger:
        made = TeamManager(ledger, "TestHost")
        made.sync_with(load_supervisor_config(home.config, environ={}))
        yield made


def test_the_plain_lines_have_every_key_whether_a_daemon_runs_or_not(home: Home) -> None:
    def keys(told: dict[str, str]) -> dict[str, set[str]]:
        by_name: dict[str, set[str]] = {}
        for name in told:
            before, _, key = name.rpartition(".")
            by_name.setdefault(before, set()).add(key)
        return by_name

    without = keys(plain(home))
    home.start_daemon()
    told = plain(home)
    for found in (without, keys(told)):
        assert "healthy" in found[""]
        assert found["supervisor"] >= SUPERVISOR_KEYS
        for name in ("service.queue_processor", "service.forwarder", "service.slack"):
            assert found[name] >= SERVICE_KEYS
        for worker_id in WORKERS:
            assert found[f"worker.{worker_id}"] >= WORKER_KEYS
    assert told["supervisor.state"] == "running"
    assert told["service.queue_processor.health"] == "healthy"
    assert (told["worker.OrionMX.health"], told["worker.OrionMX.last_error"]) == ("healthy", "none")
    assert MOMENT.fullmatch(told["worker.OrionMX.last_health_at"])
    assert told["worker.Alone.pid"] == "none"


def test_a_target_is_shown_alone_and_its_health_is_the_exit_code(home: Home) -> None:
    shown = {each["id"] for each in home.json("status", "Alone")["workers"]}
    assert shown == {"Alone"}
    assert home.supervisor("status", "Alone").returncode == 0, "it rests on purpose, daemon or not"
    assert home.supervisor("status", "OrionMX").returncode == 1, "it should run"
    assert (
        home.json("status", "OrionMX")["workers"][0]["id"]
        == home.json("status", "--worker", "OrionMX")["workers"][0]["id"]
    )
    assert {each["id"] for each in home.json("status", "*e*")["workers"]} == {"West", "Alone"}
    assert len(home.json("status", "all")["workers"]) == len(WORKERS)
    assert [each["id"] for each in home.json("status", "orionmx")["workers"]] == ["OrionMX"]
    assert [each["id"] for each in home.json("status", "o*")["workers"]] == ["OrionMX"]


@pytest.mark.parametrize(
    ("target", "nearest"),
    [
        (["OrionMY"], "Did you mean OrionMX?"),
        (["team:archiv"], "Did you mean team:archive?"),
        (["nothing-like-it"], "Use a worker (OrionMX, West, Alone), team:NAME"),
        (["team:"], "There's no team"),
        (["--worker", "Wst"], "Did you mean West?"),
    ],
)
def test_a_target_that_is_none_is_wrong_usage_and_names_the_nearest(
    target: list[str], nearest: str, home: Home
) -> None:
    done = home.supervisor("status", *target)
    assert (done.returncode, done.stdout) == (2, "")
    assert nearest in done.stderr


def test_a_worker_that_the_daemon_does_not_know_yet_is_not_called_well(home: Home) -> None:
    status: dict[str, Any] = {"healthy": True, "supervisor": {"id": "TestHost"}, "services": [], "workers": []}
    narrow(status, "OrionMX", read_raw(home.config, {}))
    assert (status["healthy"], status["workers"]) == (False, [])
    assert "hasn't read OrionMX yet" in status["supervisor"]["reason"]


def test_a_team_that_the_ledger_does_not_know_is_shown_as_configured(home: Home) -> None:
    told = home.json("status", "team:archive")
    team = told["team"]
    assert (team["team_name"], team["objective"]) == ("archive", "keep the archive flowing")
    assert (team["member_count"], team["active_members"], team["recorded"]) == (2, 2, False)
    assert [(each["agent_id"], each["role"], each["active"]) for each in team["members"]] == [
        ("OrionMX", "MEMBER", True),
        ("West", "MEMBER", True),
    ]
    assert [worker["id"] for worker in told["workers"]] == ["OrionMX", "West"]
    assert told["healthy"] is False
    assert not (home.state_dir / LEDGER_FILE).exists(), "looking makes no ledger"
    empty = home.supervisor("status", "team:empty")
    assert empty.returncode == 0, "nobody in it is unwell"
    assert "no objective is set" in empty.stdout


def test_a_team_is_shown_as_the_ledger_has_it_with_those_who_left(home: Home, manager: TeamManager) -> None:
    team_id = next(team.team_id for team in manager.get_teams() if team.name == "archive")
    manager.remove_agent_from_team(team_id, "OrionMX")
    manager.add_agent_to_team(team_id, "OrionMX", "LEAD")
    manager.add_agent_to_team(team_id, "by hand", "TRAINEE")
    manager.remove_agent_from_team(team_id, "West")
    team = home.json("status", "team:archive")["team"]
    counted = next(each for each in manager.get_team_status()["teams"] if each["team_id"] == team_id)
    assert {key: team[key] for key in counted} == counted
    assert [(each["agent_id"], each["role"], each["active"]) for each in team["members"]] == [
        ("OrionMX", "LEAD", True),
        ("by hand", "TRAINEE", True),
        ("West", "MEMBER", False),
    ]
    shown = home.supervisor("status", "team:archive").stdout
    assert "2 active, 1 left" in shown
    assert re.search(r"^down +OrionMX +LEAD", shown, re.MULTILINE)
    assert re.search(r"^left +West +MEMBER", shown, re.MULTILINE)
    assert "by hand" in shown
    told = plain(home, "team:archive")
    assert (told["team.member.West.active"], told["team.member.OrionMX.role"]) == ("false", "LEAD")
