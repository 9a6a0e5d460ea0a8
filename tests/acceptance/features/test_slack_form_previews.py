"""The form of a rollback shows the commits to choose from, and the effect of the choice before it is submitted."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.views.forms import SHORTCUT
from slack_playground import Playground
from slack_playground.testing.cards import Modal
from slack_playground.testing.people import Person
from tests.support.homes import ROOT
from tests.support.slack.code_homes import a_code_home_in_slack
from tests.support.slack.slack_home import settled, started

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=20)

HELD = """
import sys, time, pathlib
from supervisor_core.code import planning as previews

whole = previews.preview
def held(host, command):
    while command.params.get("commits_back") == 2 and pathlib.Path({hold!r}).exists():
        time.sleep(0.02)
    return whole(host, command)
previews.preview = held

from supervisor_core.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A daemon whose previews of two commits wait while a file is there."""


async def rollback_form(person: Person, first: str = "Revert the newest commits") -> Modal:
    """The form, opened by the shortcut."""
    await person.shortcut(SHORTCUT, in_="ops")
    modal = await person.modal("Choose a command")
    await modal.menu("Choose a command").choose("Roll back")
    await modal.becomes(first)
    return modal


def blocks(modal: Modal) -> list[dict[str, Any]]:
    """The blocks of the form now."""
    view = modal._view()  # noqa: SLF001
    assert view is not None
    found: list[dict[str, Any]] = view["blocks"]
    return found


async def test_the_choice_of_a_worker_and_a_commit_shows_its_effect_and_the_approval_is_for_just_that(
    tmp_path: Path, slack: Playground
) -> None:
    with a_code_home_in_slack(tmp_path, ("OrionMX", "Second")) as home:
        await started(home, slack)
        operator, approver = slack.user("operator"), slack.user("approver")
        modal = await rollback_form(operator)
        await modal.shows("Choose a worker to see a preview")
        await modal.lacks("Keep going")
        await modal.menu("Worker").choose("OrionMX")
        newest, before = home.clones.checkout.git("log", "-2", "--format=%h %s").splitlines()
        await modal.becomes(f"Commits to revert: [Last commit: {newest}]")
        await modal.shows("Reverts 1 commit")
        updates = len(slack.calls("views.update"))
        await modal.lacks("Keep going")
        await modal.fill("Label", "hotfix")
        await modal.menu("Commits to revert").choose(f"Last 2: {before}")
        await modal.becomes("Reverts 2 commits")
        assert len(slack.calls("views.update")) == updates + 1
        for words in (newest, before, "watcher.py +1 -1", "Dry run: applies cleanly", "Restarts OrionMX", "Second"):
            await modal.shows(words)
        await modal.shows("Label: [hotfix]")
        await modal.submit()
        card = await slack.channel("ops").shows("Roll back 2 commits on OrionMX")
        await card.shows("hotfix")
        await card.button("Approve").click(as_=approver, confirm=True)
        await card.becomes("OrionMX rolled back 2 commits")
        await settled(home)
        assert home.actions()[-1] == ("ROLLBACK_CODE", "success")

        home.clones.comes_in({"data/more.txt": "more\n"})
        await operator.shortcut(SHORTCUT, in_="ops")
        modal = await operator.modal("Choose a command")
        await modal.menu("Choose a command").choose("Update")
        await modal.menu("Worker").choose("all workers")
        await modal.becomes("data/more.txt +1 -0")
        await modal.shows("Keep going")


async def test_what_binds_is_the_preview_of_the_approval_and_not_that_of_the_form(
    tmp_path: Path, slack: Playground
) -> None:
    with a_code_home_in_slack(tmp_path) as home:
        await started(home, slack)
        operator, approver = slack.user("operator"), slack.user("approver")
        modal = await rollback_form(operator)
        await modal.becomes("Reverts 1 commit")
        home.clones.checkout.commit({"data/more.txt": "more\n"}, "Meanwhile")
        await modal.submit()
        card = await slack.channel("ops").shows("Roll back 1 commit on OrionMX")
        await card.shows("Meanwhile")
        home.clones.checkout.commit({"data/more.txt": "other\n"}, "Once more")
        await card.button("Approve").click(as_=approver, confirm=True)
        await card.becomes("is now at")
        await settled(home)
        assert "ROLLBACK_CODE" not in [action for action, _ in home.actions()]


async def test_the_late_preview_of_an_earlier_choice_does_not_replace_that_of_a_newer_one(
    tmp_path: Path, slack: Playground
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    with a_code_home_in_slack(tmp_path / "home") as home:
        await started(home, slack, (sys.executable, "-c", HELD.format(hold=str(hold))))
        operator = slack.user("operator")
        modal = await rollback_form(operator)
        await modal.becomes("Reverts 1 commit")
        before = len(slack.calls("views.update"))
        await modal.menu("Commits to revert").choose("2")
        await modal.menu("Commits to revert").choose("1")
        await slack.eventually(lambda: len(slack.calls("views.update")) == before + 1, "one update for the newest")
        hold.unlink()
        await settled(home)
        await modal.shows("Reverts 1 commit")
        assert len(slack.calls("views.update")) == before + 1
        hold.touch()
        await modal.menu("Commits to revert").choose("2")
        await modal.submit()  # nobody has to wait for it
        hold.unlink()
        await slack.channel("ops").shows("Roll back 2 commits on OrionMX")
        await modal.is_closed()


async def test_a_checkout_that_can_t_be_read_says_so_in_the_form(tmp_path: Path, slack: Playground) -> None:
    with a_code_home_in_slack(tmp_path) as home:
        await started(home, slack)
        (home.top / ".git" / "HEAD").write_text("nonsense\n")
        operator = slack.user("operator")
        modal = await rollback_form(operator)
        await modal.becomes("Can't run now")
        await modal.shows("Commits to revert: [Last commit]")
        assert not [each for each in blocks(modal) if "@" in each["block_id"]]
        await modal.submit()
        await operator.sees("Not requested")
        assert home.rows("select * from approvals_t") == []


async def test_who_can_t_give_the_command_for_a_worker_sees_none_of_its_commits(
    tmp_path: Path, slack: Playground
) -> None:
    access = {"operators": [], "approvers": ["U0APPROVER"], "viewers": ["*"]}
    with a_code_home_in_slack(tmp_path, ("OrionMX", "Second"), access=access) as home:
        config = yaml.safe_load(home.config.read_text())
        config["workers"]["Second"]["team"] = "night"
        home.config.write_text(yaml.safe_dump(config | {"teams": {"night": {"operators": ["U0OPERATOR"]}}}))
        slack.user("operator")
        await started(home, slack)
        modal = await rollback_form(slack.user("operator"))
        await modal.menu("Worker").choose("OrionMX")
        await modal.becomes(":no_entry:")
        await modal.lacks("Change 2")
        await modal.menu("Worker").choose("Second")
        await modal.becomes("Reverts 1 commit")


async def test_a_rollback_to_a_commit_is_asked_about_and_a_label_that_is_none_stays_a_label(
    tmp_path: Path, slack: Playground
) -> None:
    with a_code_home_in_slack(tmp_path, ("OrionMX", "Second")) as home:
        await started(home, slack)
        operator = slack.user("operator")
        before = home.clones.checkout.git("rev-parse", "--short", "HEAD~1")
        newest = home.clones.checkout.git("rev-parse", "--short", "HEAD")
        assert (before[0].isalpha(), newest[0].isdigit()) == (True, True)
        answer = await operator.slash(f"/supervisor rollback OrionMX {before}")
        await answer.is_private()
        for words in (f"is the commit {before}", "number 2 from the newest", "/supervisor rollback OrionMX 2"):
            await answer.shows(words)
        await (await operator.slash(f"/supervisor rollback OrionMX {newest}")).shows("N must be a whole number")
        assert home.rows("select * from approvals_t") == []
        refused = await asyncio.to_thread(home.supervisor, "rollback", "OrionMX", before)
        assert (refused.returncode, f"is the commit {before}" in refused.stderr) == (2, True)
        assert home.rows("select * from jobs_t") == []
        await answer.button("rollback OrionMX 2").click(confirm=True)
        await slack.channel("ops").shows("Roll back 2 commits on OrionMX")
        await operator.slash("/supervisor rollback OrionMX deadbeef")
        card = await slack.channel("ops").shows("Roll back 1 commit on OrionMX")
        await card.shows("deadbeef")
