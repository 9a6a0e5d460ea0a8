"""The configuration of a hub with the workers of its hosts."""

from __future__ import annotations

from pathlib import Path

from supervisor_core.config.load import read_config
from supervisor_core.fleet.hub.fleet import fleet_configuration


def test_a_hub_knows_the_workers_of_its_hosts_also_in_teams_that_it_does_not_configure(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("supervisor: {id: hub}\nteams: {archive: {}}\n")
    announced: dict[str, dict[str, object]] = {
        "web-1/fetcher": {"team": "archive"},
        "web-2/fetcher": {"team": "elsewhere", "enabled": False},
    }
    config = fleet_configuration(read_config(tmp_path / "config.yaml", {}), announced)
    assert {name: worker.id for name, worker in config.workers.items()} == {name: name for name in announced}
    assert {name: team.name for name, team in config.teams.items()} == {name: name for name in ("archive", "elsewhere")}
    assert not config.workers["web-2/fetcher"].enabled
