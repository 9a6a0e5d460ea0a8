"""Teams: who is in them, who was, and how the configuration makes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.teams import TeamError, TeamManager, team_pictures
from tests.support.daemon.agents import NOW, put_supervisor

HOST = "TestHost"

Shown = tuple[str, str, list[tuple[str, str]], list[str]]
"""Of a picture: name, objective, members with their roles, who left."""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / LEDGER_FILE, HOST) as made:
        yield made


class Clock:
    """A second later at each look."""

    def __init__(self) -> None:
        self.moment = NOW

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


@pytest.fixture
def manager(ledger: Ledger) -> TeamManager:
    return TeamManager(ledger, HOST, clock=Clock())


def agents(manager: TeamManager, team_id: str) -> list[str]:
    return [member.agent_id for member in manager.get_team_members(team_id) if member.left_at is None]


def names(manager: TeamManager) -> list[str]:
    return [team.name for team in manager.get_teams()]


def test_a_team_is_made_with_its_members_and_is_listed(manager: TeamManager) -> None:
    made = manager.create_team("archive", "those who keep", "keep it flowing", {"shift": ["night"]}, ["W2", "W1", "W2"])
    manager.create_team("air")
    assert names(manager) == ["air", "archive"]
    assert manager.get_teams()[1] == made
    assert (made.name, made.description, made.objective) == ("archive", "those who keep", "keep it flowing")
    assert sorted(agents(manager, made.team_id)) == ["W1", "W2"]
    assert {member.role for member in manager.get_team_members(made.team_id)} == {"MEMBER"}


@pytest.mark.parametrize("same", [True, False], ids=["of the same team", "of another team"])
def test_an_active_member_can_not_join_once_more(manager: TeamManager, same: bool) -> None:
    archive, other = manager.create_team("archive", agent_ids=["W1"]), manager.create_team("air")
    with pytest.raises(ValueError, match=r"W1 is already in team archive.*Remove it from archive first"):
        manager.add_agent_to_team((archive if same else other).team_id, "W1")
    assert agents(manager, archive.team_id) == ["W1"]
    assert agents(manager, other.team_id) == []


def test_who_leaves_is_kept_as_history_and_may_join_again(manager: TeamManager) -> None:
    team = manager.create_team("archive", agent_ids=["W1"])
    assert manager.remove_agent_from_team(team.team_id, "W1")
    assert agents(manager, team.team_id) == []
    manager.add_agent_to_team(team.team_id, "W1", "LEAD")
    first, second = manager.get_team_history(team.team_id)
    assert (first.active, first.role, second.active, second.role) == (False, "MEMBER", True, "LEAD")
    assert first.left_at is not None
    assert first.joined_at < first.left_at < second.joined_at


def test_mistakes_say_what_was_expected(manager: TeamManager) -> None:
    team = manager.create_team("archive")
    for call, words in (
        (lambda: manager.create_team("archive"), "Team archive already exists"),
        (lambda: manager.create_team(" "), "1 to 255 printable characters"),
        (lambda: manager.create_team("a\nb"), "printable characters"),
        (lambda: manager.create_team("x" * 256), "1 to 255 printable characters"),
        (lambda: manager.add_agent_to_team(team.team_id, ""), "id of an agent must be 1 to 64"),
        (lambda: manager.add_agent_to_team(team.team_id, "W1", "BOSS"), "LEAD, MEMBER, TRAINEE, not 'BOSS'"),
        (lambda: manager.add_agent_to_team("nonsense", "W1"), "has no team with id 'nonsense'"),
    ):
        with pytest.raises(TeamError, match=words):
            call()
    assert names(manager) == ["archive"]


def test_a_team_is_not_made_where_one_of_its_members_can_not_join(manager: TeamManager) -> None:
    manager.create_team("archive", agent_ids=["W1"])
    with pytest.raises(ValueError, match="W1 is already in team archive"):
        manager.create_team("air", agent_ids=["W2", "W1"])
    assert names(manager) == ["archive"]
    manager.create_team("air", agent_ids=["W2"])


def test_the_status_counts_those_who_left_beside_those_who_are_there(ledger: Ledger, manager: TeamManager) -> None:
    archive = manager.create_team("archive", objective="keep it flowing", agent_ids=["W1", "W2", "W3"])
    air = manager.create_team("air")
    manager.remove_agent_from_team(archive.team_id, "W1")
    manager.remove_agent_from_team(archive.team_id, "W2")
    manager.add_agent_to_team(archive.team_id, "W2")
    put_supervisor(ledger, HOST, status="PAUSED")
    assert manager.get_team_status() == {
        "supervisor_id": HOST,
        "status": "PAUSED",
        "teams": [
            {"team_id": air.team_id, "team_name": "air", "objective": None, "member_count": 0, "active_members": 0},
            {
                "team_id": archive.team_id,
                "team_name": "archive",
                "objective": "keep it flowing",
                "member_count": 3,
                "active_members": 2,
            },
        ],
        "total_teams": 2,
        "total_members": 2,
    }


# From the configuration


def configured(folder: Path, teams: dict[str, Any], **members: str) -> SupervisorConfig:
    document = {
        "supervisor": {"id": HOST, "state_dir": "var"},
        "teams": teams,
        "workers": {name: {"command": ["{python}", "-V"], "team": team} for name, team in members.items()},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return load_supervisor_config(folder / "config.yaml")


def picture(manager: TeamManager) -> dict[str, list[str]]:
    return {team.name: sorted(agents(manager, team.team_id)) for team in manager.get_teams()}


TWO = {"archive": {"objective": "keep it flowing"}, "air": {}}


def test_teams_and_members_are_as_the_configuration_says_and_the_second_time_nothing_changes(
    manager: TeamManager, tmp_path: Path
) -> None:
    config = configured(tmp_path, TWO, W1="archive", W2="air", W3="")
    changes = manager.sync_with(config)
    assert changes == [
        "added team archive",
        "added team air",
        "W1 joined team archive",
        "W2 joined team air",
    ]
    assert picture(manager) == {"air": ["W2"], "archive": ["W1"]}
    assert manager.get_teams()[1].objective == "keep it flowing"
    before = manager.get_teams()
    assert manager.sync_with(config) == []
    assert manager.get_teams() == before


def test_a_worker_moves_and_an_objective_changes(manager: TeamManager, tmp_path: Path) -> None:
    manager.sync_with(configured(tmp_path, TWO, W1="archive", W2="air"))
    later = configured(tmp_path, {"archive": {"objective": "keep it dry"}, "air": {}}, W1="air", W2="")
    assert manager.sync_with(later) == [
        "changed team archive",
        "W1 left team archive",
        "W2 left team air",
        "W1 joined team air",
    ]
    assert picture(manager) == {"air": ["W1"], "archive": []}
    assert manager.get_teams()[1].objective == "keep it dry"


def test_a_team_that_vanished_keeps_its_history_and_comes_back_with_it(manager: TeamManager, tmp_path: Path) -> None:
    both = configured(tmp_path, TWO, W1="archive", W2="air")
    manager.sync_with(both)
    archive = manager.get_teams()[1]
    assert manager.sync_with(configured(tmp_path, {"air": {}}, W2="air")) == [
        "removed team archive",
        "W1 left team archive",
    ]
    assert picture(manager) == {"air": ["W2"]}
    assert manager.get_team_status()["total_teams"] == 1
    with pytest.raises(TeamError, match="Team archive was removed"):
        manager.add_agent_to_team(archive.team_id, "W9")
    with pytest.raises(TeamError, match=r"Team archive already exists\. It was removed"):
        manager.create_team("archive")
    assert manager.sync_with(both) == ["restored team archive", "W1 joined team archive"]
    assert [member.active for member in manager.get_team_history(archive.team_id)] == [False, True]


def test_teams_made_by_hand_stay_and_only_lose_whom_the_configuration_places(
    manager: TeamManager, tmp_path: Path
) -> None:
    manager.create_team("crew", agent_ids=["W1", "W2", "guest"])
    manager.sync_with(configured(tmp_path, {"archive": {}}, W1="archive", W2=""))
    assert picture(manager) == {"archive": ["W1"], "crew": ["W2", "guest"]}
    assert manager.sync_with(configured(tmp_path, {}, W1="")) == ["removed team archive", "W1 left team archive"]
    assert picture(manager) == {"crew": ["W2", "guest"]}


def test_a_picture_of_teams_has_who_is_in_by_the_configuration_in_which_role_and_who_left_lately(
    manager: TeamManager, ledger: Ledger, tmp_path: Path
) -> None:
    manager.sync_with(configured(tmp_path, TWO, W1="archive", W2="air", W3="archive"))
    archive = manager.get_teams()[1].team_id
    manager.remove_agent_from_team(archive, "W1")
    manager.add_agent_to_team(archive, "W1", "LEAD")
    manager.sync_with(configured(tmp_path, TWO, W1="archive", W2="air", W3=""))
    manager.create_team("crew", objective="by hand", agent_ids=["guest"])
    # A worker that the configuration has just placed is in its team before the ledger knows it.
    config = configured(tmp_path, {**TWO, "new": {}}, W1="archive", W2="air", W3="", W4="new")

    def pictures(now: datetime) -> list[Shown]:
        found = ledger.read(lambda connection: team_pictures(connection, config, now))
        return [
            (
                each.name,
                each.objective,
                [(one.agent_id, one.role) for one in each.members],
                [g.agent_id for g in each.left],
            )
            for each in found
        ]

    others: list[Shown] = [("new", "", [("W4", "MEMBER")], []), ("crew", "by hand", [("guest", "MEMBER")], [])]
    lead = [("W1", "LEAD")]
    air: Shown = ("air", "", [("W2", "MEMBER")], [])
    assert pictures(NOW + timedelta(days=1)) == [("archive", "keep it flowing", lead, ["W3"]), air, *others]
    assert pictures(NOW + timedelta(days=8)) == [("archive", "keep it flowing", lead, []), air, *others]
