"""Each command of the catalog, as people give it in Slack: what comes of it, and on which message it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.code.checkout_homes import watcher
from tests.support.homes import Home, a_home, demo_command
from tests.support.slack.code_homes import CodeInSlack, a_code_home_in_slack
from tests.support.slack.slack_home import ACCESS, SlackHome, settled, started

pytestmark = pytest.mark.playground(patience=15)

NOBODY_IS_ASKED: dict[str, list[str]] = {"required_for": []}
WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}


@pytest.fixture
def code(tmp_path: Path) -> Iterator[CodeInSlack]:
    with a_code_home_in_slack(tmp_path, approvals=NOBODY_IS_ASKED) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    workers = {"North": {**WORKER, "team": "poles"}, "South": {**WORKER, "team": "poles"}, "Tropic": WORKER}
    teams = {"poles": {"objective": "keep cold"}}
    with a_home(tmp_path / "home", workers, make=SlackHome, slack={"access": ACCESS}, teams=teams) as made:
        yield made


async def test_one_command_after_the_other_each_with_its_own_card(code: CodeInSlack, slack: Playground) -> None:
    """`status`, `help`, `pause`, `resume`, `restart`, `diagnostics` and `verify-db`."""
    await started(code, slack)
    operator, ops = slack.user("operator"), slack.channel("ops")
    await (await operator.slash("/supervisor status")).shows("OrionMX running")
    await (await operator.slash("/supervisor help rollback")).shows("Revert the newest commits")
    for command, outcome in (
        ("pause hotfix", "OrionMX paused"),
        ("resume", "OrionMX resumed"),
        ("restart", "OrionMX restarted"),
        ("diagnostics before the upgrade", "Report on OrionMX written"),
        ("verify-db", "Database of TestHost verified"),
    ):
        await operator.slash(f"/supervisor {command}")
        await ops.shows(1, outcome)
    await settled(code)
    assert [action for action, _ in code.actions()] == [
        "PAUSE",
        "RESUME",
        "RESTART_WATCHER",
        "DIAGNOSTICS",
        "VERIFY_DB",
    ]


@pytest.mark.playground(patience=60)  # pip takes its time on a busy machine
async def test_code_comes_and_goes_where_nobody_needs_to_be_asked(code: CodeInSlack, slack: Playground) -> None:
    """`update`, `rollback`, `undo` and `update-deps`: they run at once, and say what changed."""
    await started(code, slack)
    operator, ops = slack.user("operator"), slack.channel("ops")
    code.clones.colleague.commit({"watcher.py": watcher(4), "requirements.txt": "\n"}, "Watch more closely")
    code.clones.colleague.git("push", "-q", "origin", "main")
    await operator.slash("/supervisor update new watcher")
    card = await ops.shows("OrionMX updated")
    await card.shows("Watch more closely")
    await card.shows("2 files: requirements.txt +1 -0, watcher.py +1 -1")
    assert code.started_from() == watcher(4)
    await operator.slash("/supervisor rollback 1")
    await ops.shows("OrionMX rolled back")
    assert code.started_from() == watcher(3)
    await operator.slash("/supervisor undo")
    await ops.shows("OrionMX undone")
    assert code.started_from() == watcher(4)
    await (await ops.shows("OrionMX rolled back")).shows("undone by")
    await operator.slash("/supervisor update-deps")
    await ops.shows("OrionMX updated with packages")
    await settled(code)
    assert [action for action, _ in code.actions()] == [
        "UPDATE_CODE",
        "ROLLBACK_CODE",
        "UNDO_CODE",
        "UPDATE_CODE_DEPS",
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("target", "meant"),
    [("Tropic", ["Tropic"]), ("team:poles", ["North", "South"]), ("*o*th", ["North", "South"]), ("all", None)],
)
async def test_a_target_is_a_worker_a_team_a_pattern_or_all_and_has_one_card(
    home: SlackHome, slack: Playground, target: str, meant: list[str] | None
) -> None:
    await started(home, slack)
    everybody = ["North", "South", "Tropic"]
    answer = await slack.user("operator").slash(f"/supervisor status {target}")
    for name in meant or everybody:
        await answer.shows(f"{name} running")
    card = await slack.user("operator").slash(f"/supervisor pause {target} hotfix")
    await card.becomes(f"{', '.join(meant or everybody)} paused")
    await settled(home)
    assert sorted(row["target_id"] for row in home.trail()) == sorted(meant or everybody)
    assert len(slack.channel("ops").messages()) == 1


async def test_who_names_no_worker_chooses_one_from_a_menu(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    asked = await operator.slash("/supervisor pause hotfix")
    await asked.is_private()
    await asked.shows("Pause which worker?")
    await asked.menu("pause: which worker?").use("South", confirm=True)
    await slack.channel("ops").shows("South paused")
    await settled(home)
    (row,) = home.trail()
    assert (row["target_id"], row["label"].partition(" - ")[2]) == ("South", "hotfix")
    again = await operator.slash("/supervisor resume")
    await again.menu("resume: which worker?").use("team:poles", confirm=True)
    await slack.channel("ops").shows("North, South resumed")


async def test_a_mistake_offers_what_was_meant_as_a_button_that_does_it(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    mistake = await operator.slash("/supervisor puase North hotfix")
    await mistake.is_private()
    await mistake.shows("Did you mean /supervisor pause North hotfix")
    await mistake.button("pause North hotfix").click(confirm=False)
    assert home.trail() == []
    await mistake.button("pause North hotfix").click(confirm=True)
    await slack.channel("ops").shows("North paused")
    nearly = await operator.slash("/supervisor restart Nroth")
    await nearly.button("restart North").click(confirm=True)
    await slack.channel("ops").shows("North restarted")
    refused = await viewer.slash("/supervisor puase North")
    await refused.shows("Did you mean")
    await refused.button("pause North").is_gone()


async def test_what_was_done_to_several_is_taken_back_by_the_button_of_one(tmp_path: Path, slack: Playground) -> None:
    with a_code_home_in_slack(tmp_path, ("OrionMX", "Second"), approvals=NOBODY_IS_ASKED) as home:
        await started(home, slack)
        operator = slack.user("operator")
        card = await operator.slash("/supervisor rollback all 1")
        await card.becomes("OrionMX, Second rolled back")
        await card.button("Undo Second").click(confirm=True)
        await slack.channel("ops").shows("Second undone")
        await card.becomes("undone by")
        await card.button("Undo OrionMX").is_gone()  # they run from one checkout
        await settled(home)
        assert [action for action, _ in home.actions()] == ["ROLLBACK_CODE", "ROLLBACK_CODE", "UNDO_CODE"]
