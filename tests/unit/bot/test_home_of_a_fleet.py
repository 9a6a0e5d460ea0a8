"""App Home on the hub of a fleet: a line for each host, those with trouble first, then the workers in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.views.home import (
    EVERY_WORKER,
    EVERYTHING,
    OF_TEAM,
    TROUBLE,
    HomeData,
    HomePosition,
    HomeReader,
    home,
)
from bot.views.workers import Worker
from slack_playground.blockkit.views import check_view
from supervisor_core.commands.catalog import CATALOG
from tests.support.slack.host_pictures import NOW, texts
from tests.unit.bot.test_status_of_a_fleet import silent, worker

ALL = HomeReader(list(CATALOG), lambda *_: True)
DOWN = {"state": "stopped", "health": "missing", "fine": False, "pid": None, "reason": "not running, but should be"}


def shown(workers: Sequence[Worker], only: str = EVERYTHING) -> dict[str, Any]:
    view = home(HomeData("hub", workers, NOW), ALL, HomePosition(only=only))
    assert check_view(view) == []
    return view


def hosts(view: dict[str, Any]) -> list[str]:
    (block,) = (each for each in view["blocks"] if each.get("block_id") == "hosts")
    lines: list[str] = block["text"]["text"].split("\n")
    return lines


def listed(view: dict[str, Any]) -> list[str]:
    ids = (str(each.get("block_id")) for each in view["blocks"])
    return [each.removeprefix("worker:") for each in ids if each.startswith("worker:")]


FLEET = [
    worker("own"),
    worker("web-1/a"),
    worker("web-1/b"),
    worker("web-2/a", **DOWN),
    worker("web-2/b"),
    silent("web-9/a"),
    silent("web-9/b"),
]


def test_hosts_have_a_line_each_with_trouble_first_and_only_workers_in_trouble_follow() -> None:
    view = shown(FLEET)
    assert hosts(view) == [
        "*Hosts* (4)",
        ":red_circle: *web-2* · 1 of 2 workers needs attention",
        ":red_circle: *web-9* unresponsive, last seen 21:32 UTC · 2 workers",
        ":white_check_mark: *hub* · 1 worker running",
        ":white_check_mark: *web-1* · all 2 workers running",
    ]
    assert listed(view) == ["web-2/a", "web-9"]


def test_the_menu_leads_to_all_workers_those_of_a_host_and_those_of_a_team() -> None:
    assert len(listed(shown(FLEET, EVERY_WORKER))) == 6, "those of the silent host are one line"
    assert listed(shown(FLEET, "host:web-1")) == ["web-1/a", "web-1/b"]
    assert listed(shown(FLEET, f"{OF_TEAM}web"))[0] == "web-2/a"
    assert listed(shown(FLEET, TROUBLE)) == ["web-2/a", "web-9"]
    assert "no workers" in " ".join(texts(shown(FLEET, "host:gone")))
