"""App Home as people see it: golden files for each role and size, and the worst there can be against Slack's limits.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_home_views.py`, then look at the difference.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.views.cards.approval import decision_form
from bot.views.home import (
    EVERYTHING,
    OF_TEAM,
    TROUBLE,
    HomeData,
    HomePosition,
    HomeReader,
    OpenAlert,
    home,
    plain_home,
    refused_home,
)
from slack_playground.blockkit.views import check_view
from supervisor_core.commands.catalog import CATALOG
from tests.support.sampling import examples
from tests.support.slack.host_pictures import NOW, READERS, hostile, picture, texts, worker

GOLDEN = Path(__file__).parents[2] / "golden"
ALL = HomeReader(list(CATALOG), lambda *_: True)
MARKED_UP = re.compile(r"<([^>]*)>")
OURS = re.compile(r"!date\^\d+\^[^|]*\|[^<>]*|https://[^|<>]*\|[^<>|]+|@U0(ANNA|OLGA)")


def checked(view: dict[str, Any]) -> dict[str, Any]:
    assert check_view(view) == []
    assert len(view["blocks"]) <= 100
    return view


def golden(name: str, view: dict[str, Any]) -> None:
    """A block on a line."""
    path = GOLDEN / f"home_{name}.json"
    lines = ",\n".join(json.dumps(block, ensure_ascii=False) for block in checked(view)["blocks"])
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(f"[\n{lines}\n]\n")
    assert json.loads(path.read_text()) == view["blocks"]


def said(view: dict[str, Any]) -> str:
    return json.dumps(view, ensure_ascii=False)


def elements(view: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [each for block in view["blocks"] for each in block.get("elements", ()) if "action_id" in each]
    return rows + [block["accessory"] for block in view["blocks"] if "accessory" in block]


def pages_of(whole: HomeData) -> list[dict[str, Any]]:
    """All pages, turned one by one."""
    pages = [home(whole, ALL, HomePosition(0))]
    while any(each["action_id"] == "home:page:on" for each in elements(pages[-1])):
        pages.append(home(whole, ALL, HomePosition(len(pages))))
    return pages


def values(view: dict[str, Any]) -> set[str]:
    """All commands that can be asked for on this page, as `COMMAND:WORKER`."""
    found = [each for each in elements(view) if each["action_id"].startswith("home:do")]
    options = [option for each in found for option in each.get("options", [each])]
    return {option["value"] for option in options}


def test_each_page_is_as_it_was_last_looked_at() -> None:
    for role, reader in READERS.items():
        for count in (1, 40, 400):
            golden(f"{count}_{role}", home(picture(count, role), reader))
    golden("empty", home(HomeData("Host", (), NOW), READERS["operator"]))
    golden("stranger", refused_home("`status` is for viewers: <@U0ANNA>.", HomeData("Host", (), NOW)))
    golden("in_words", plain_home(picture(40)))
    golden("page_2_of_400", home(picture(400), READERS["operator"], HomePosition(1)))
    golden("only_trouble", home(picture(40), READERS["operator"], HomePosition(0, TROUBLE)))
    alerts = [OpenAlert("Worker-004", "stale", NOW, "https://work.slack.com/archives/C0OPS/p1")]
    alerts.append(OpenAlert("612 of 1,000 workers", "are still unhealthy", NOW))
    golden("alerts", home(picture(1, alerts=alerts), READERS["viewer"]))


def test_a_viewer_is_offered_nothing_that_changes_anything() -> None:
    offered = {value.partition(":")[0] for value in values(home(picture(40, "viewer"), READERS["viewer"]))}
    assert offered
    assert {CATALOG[name].right for name in offered} == {CATALOG["status"].right}
    assert values(home(picture(40), HomeReader())) == set()


def test_what_can_be_asked_for_fits_how_a_worker_is() -> None:
    seen = [
        worker("Well"),
        worker("Rests", paused=True, pid=None, state="stopped"),
        worker("Down", fine=False, pid=None, state="stopped"),
        worker("Ill", fine=False, health="stale"),
    ]
    found = values(home(HomeData("Host", seen, NOW), ALL))
    assert {"restart:Well", "pause:Well", "resume:Rests", "resume:Down", "restart:Ill"} <= found
    assert not {"resume:Well", "restart:Rests", "pause:Rests", "restart:Down", "resume:Ill"} & found


def test_those_in_trouble_come_first_in_their_team_and_their_team_before_others() -> None:
    seen = [worker("A1", "a"), worker("B1", "b"), worker("B2", "b", fine=False), worker("Z")]
    shown = said(home(HomeData("Host", seen, NOW), ALL))
    order = [shown.index(f"*{name}*") for name in ("b", "B2", "B1", "a", "A1", "No team", "Z")]
    assert order == sorted(order)


def test_every_worker_is_on_exactly_one_page_and_a_team_that_goes_on_says_so() -> None:
    whole = picture(400)
    pages = pages_of(whole)
    count = len(pages)
    named = [block["block_id"] for view in pages for block in view["blocks"] if "worker:" in block.get("block_id", "")]
    assert sorted(named) == sorted(f"worker:{each['id']}" for each in whole.workers)
    assert count > 5
    assert any("(continued)" in said(view) for view in pages)
    for number, view in enumerate(pages):
        checked(view)
        turned = {each["action_id"]: each["value"] for each in elements(view) if "home:page" in each["action_id"]}
        back = {"home:page:back": str(number - 1)} if number else {}
        on = {"home:page:on": str(number + 1)} if number < count - 1 else {}
        assert turned == back | on


def test_the_worst_there_can_be_fits_and_nothing_in_it_comes_alive() -> None:
    for page in pages_of(hostile()):
        view = checked(page)
        found = [mark for text in texts(view) for mark in MARKED_UP.findall(text)]
        assert [mark for mark in found if not OURS.fullmatch(mark)] == []
    checked(plain_home(hostile()))
    checked(refused_home("w" * 5000, hostile()))
    checked(decision_form(hostile().approvals[0].approval))
    golden("hostile", home(hostile(4), ALL))


WORKERS = st.builds(
    worker,
    worker_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}", fullmatch=True),
    team=st.one_of(st.sampled_from(["", "a", "b"]), st.text(max_size=300)),
    fine=st.booleans(),
    paused=st.booleans(),
    pid=st.one_of(st.none(), st.integers(1, 2**31)),
    state=st.sampled_from(["stopped", "starting", "running", "stuck", "backing_off", "quarantined"]),
    reason=st.text(max_size=500),
    last_error=st.one_of(st.none(), st.text(max_size=500)),
)


@settings(max_examples=examples(60))
@given(
    st.lists(WORKERS, max_size=150, unique_by=lambda each: each["id"]),
    st.integers(-1, 10),
    st.one_of(st.sampled_from([EVERYTHING, TROUBLE, f"{OF_TEAM}a"]), st.text(max_size=200)),
)
def test_whatever_there_is_slack_takes_it(seen: list[dict[str, Any]], page: int, only: str) -> None:
    view = checked(home(HomeData("Host", seen, NOW), ALL, HomePosition(page, only)))
    found = [mark for text in texts(view) for mark in MARKED_UP.findall(text)]
    assert [mark for mark in found if not OURS.fullmatch(mark)] == []
