"""Commands of the configuration and of a plug-in in Slack: typed and by their forms, with each form of output."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.views.forms import SHORTCUT
from slack_playground import Playground
from slack_playground.testing.cards import Modal
from slack_playground.testing.people import Person
from tests.support.homes import ROOT, a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=20)

PLUGIN = ROOT / "docs" / "examples" / "disk-space-plugin"
WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
TOOL = """\
import os, sys
with open("runs.txt", "a") as runs:
    runs.write("\\0".join(sys.argv[1:]) + "\\n")
print("\\x1b[32mcleared\\x1b[0m", *sys.argv[1:], "with", os.environ["TOKEN"])
"""
CLEAR: dict[str, Any] = {
    "summary": "Clear a worker's cache.",
    "argv": ["{python}", "clear.py", "--days={days}", "{name}", "--comment={comment}", "--where={where}"],
    "parameters": {
        "days": {"type": "number", "help": "age of the files", "min": 1, "max": 90, "default": 7},
        "name": {"help": "name of one cache", "pattern": "[a-z ;]+"},
        "comment": {"help": "any text", "pattern": ".+", "max": 1000},
        "where": {"help": "a stage", "pattern": "[a-z]+"},
    },
    "env": {"TOKEN": "open-sesame"},
}
COMMANDS: dict[str, Any] = {
    "clear-cache": {**CLEAR, "approval": True},
    "clear-now": CLEAR,
    "sizes": {
        "argv": ["printf", r"cache\tfiles\nweb\t7\nreports\t1200\n"],
        "output": "table",
        "changes": False,
        "runs": "host",
    },
    "listing": {"argv": ["seq", "3000"], "output": "file", "changes": False, "role": "viewer"},
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    slack = {"enabled": True, "access": ACCESS}
    workers = {"North": WORKER, "South": WORKER}
    with a_home(tmp_path / "home", workers, make=SlackHome, slack=slack, commands=COMMANDS) as made:
        assert isinstance(made, SlackHome)
        (made.folder / "clear.py").write_text(TOOL)
        yield made


def runs_of(home: SlackHome) -> list[list[str]]:
    """The arguments of each run of the program."""
    path = home.folder / "runs.txt"
    return [line.split("\0") for line in path.read_text().splitlines()] if path.exists() else []


def actions_of(home: SlackHome) -> list[tuple[str, str, str]]:
    return [(row["action"], row["target_id"], row["outcome"]) for row in home.trail()]


async def test_a_typed_command_is_previewed_approved_run_once_and_shows_its_output(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator, approver, viewer = slack.user("operator"), slack.user("approver"), slack.user("viewer")
    await viewer.slash("/supervisor clear-cache North")
    await viewer.sees("is limited to operators")
    card = await operator.slash('/supervisor clear-cache North --days 3 --name "a; b" too full')
    await card.shows("Approval needed")
    await card.shows("clear.py --days=3 'a; b'")
    assert runs_of(home) == []
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("Ran clear-cache on North")
    await card.shows("cleared --days=3 a; b with ****")
    await settled(home)
    assert runs_of(home) == [["--days=3", "a; b"]]
    assert actions_of(home) == [
        ("REFUSED", "North", "failure"),
        ("APPROVAL_REQUESTED", "North", "success"),
        ("APPROVED", "North", "success"),
        ("CLEAR_CACHE", "North", "success"),
    ]
    assert "open-sesame" not in str(home.trail()) + slack.story() + home.whole_log()


async def test_an_approver_sees_every_parameter_of_a_long_command_whole(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    comment = " ".join(f"<dull{number}>" for number in range(100))
    card = await operator.slash(f'/supervisor clear-cache North --comment "{comment}" --where production')
    await card.shows("Approval needed")
    await card.shows("full preview in the thread")
    for text in ("--days 7", "<dull60>", "<dull99>", "--where production"):
        await card.thread_shows(text)
    answer = await approver.slash("/supervisor approvals")
    await answer.shows("--where production")


async def test_its_form_has_a_field_for_each_parameter(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    modal = await clear_form(operator, "Clear now")
    await modal.shows("Choose a worker to see a preview")
    await modal.menu("Worker").choose("South")
    await modal.becomes("Would run for South")
    await modal.shows("clear.py --days=7")
    await modal.fill("Name", "-rf")
    answer = await modal.submit()
    assert answer["errors"] == {"param:name": "--name must be text that doesn't begin with a hyphen, not '-rf'."}
    await modal.fill("Name", "web")
    await modal.fill("Age of the files", "30")
    await modal.becomes("clear.py --days=30 web")
    await modal.submit()
    await modal.is_closed()
    card = await slack.channel("ops").shows("Ran clear-now on South")
    await card.shows("cleared --days=30 web")
    assert runs_of(home) == [["--days=30", "web"]]


async def clear_form(person: Person, title: str) -> Modal:
    """The form of a command, opened by the shortcut."""
    await person.shortcut(SHORTCUT, in_="ops")
    modal = await person.modal("Choose a command")
    await modal.menu("Choose a command").choose(title)
    await modal.becomes("Clear a worker's cache.")
    return modal


async def test_a_table_is_aligned_and_a_file_is_attached(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    card = await operator.slash("/supervisor sizes")
    await card.becomes("Ran sizes on TestHost")
    for line in ("cache    files", "web      7", "reports  1200"):
        await card.shows(line)
    card = await slack.user("viewer").slash("/supervisor listing North")
    await card.becomes("Ran listing on North")
    await card.thread_shows("command_listing_North_")
    await settled(home)
    [path] = (home.folder / "nas").rglob("command_listing_North_*.txt")
    assert path.read_text().split() == [str(number) for number in range(1, 3001)]


async def test_an_approval_is_for_the_definition_that_was_shown(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    card = await operator.slash("/supervisor clear-cache North")
    await card.shows("clear.py --days=7")
    settings = yaml.safe_load(home.config.read_text())
    settings["commands"]["clear-cache"]["argv"][1] = "erase.py"
    settings["commands"]["new-one"] = {"argv": ["echo", "hello"], "changes": False}
    home.config.write_text(yaml.safe_dump(settings))
    await asyncio.to_thread(wait_until, lambda: "version 2 is active" in home.whole_log(), 20, "it's active")
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("out of date")
    await card.shows("The definition of clear-cache on this host isn't the one that was requested")
    await operator.slash("/supervisor new-one all")
    await slack.channel("ops").shows("Ran new-one on North, South")
    await settled(home)
    assert runs_of(home) == []


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment with the plug-in of the documentation, and with a broken one."""
    folder = tmp_path_factory.mktemp("scratch")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    [site] = folder.glob("lib/python*/site-packages")
    (site / "supervisor.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", str(PLUGIN)]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": sysconfig.get_path("purelib")}
    subprocess.run([python, "-m", "pip", *install], check=True, env=environ)
    broken = site / "broken_plugin-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[supervisor.commands]\nbroken = no_such_module:COMMAND\n")
    return python


async def test_a_plug_in_s_command_works_like_any_other_and_a_broken_one_stops_nothing(
    home: SlackHome, slack: Playground, scratch: Path
) -> None:
    await started(home, slack, (str(scratch), "-m", "supervisor_core.cli"))
    assert sys.prefix not in str(scratch)
    viewer = slack.user("viewer")
    card = await viewer.slash("/supervisor disk-space South")
    await card.becomes("Ran disk-space on South")
    await card.shows("total")
    await card.shows("is free")
    card = await viewer.slash("/supervisor disk-space South --at-least 100")
    await card.becomes("disk-space on South failed: South: only")
    help_text = await viewer.slash("/supervisor help disk-space")
    await help_text.shows("Defined in disk-space-plugin 1.0")
    broken = "broken of broken-plugin 1.0 can't be used: ModuleNotFoundError: No module named 'no_such_module'."
    assert f"plug-in {broken}" in home.whole_log()
    done = await asyncio.to_thread(home.supervisor, "doctor", program=(str(scratch), "-m", "supervisor_core.cli"))
    assert f"failed  plugins: {broken}" in done.stdout
