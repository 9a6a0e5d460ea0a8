"""The pages for people who come from another tool, and the files in docs/units: every command is one that works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from supervisor_core.cli import parsers_of
from tests.support.homes import ROOT

PAGES = sorted((ROOT / "docs" / "reference").glob("coming-from-*.md"))
UNITS = ROOT / "docs" / "units"
TASKS = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def typed(text: str) -> Iterator[list[str]]:
    """The commands in a text, without the program's name."""
    for command in re.findall(r"(?:`|\$ )supervisor ([^`\n#]+)", text):
        if "…" not in command:
            yield shlex.split(command)


def parse(words: list[str]) -> None:
    """Parse a command; a `SystemExit` fails the test."""
    parsers, name = parsers_of(words[0]), " ".join(words[:2])
    name = name if name in parsers else words[0]
    parsers[name].parse(words[len(name.split()) :])


def test_there_is_a_page_for_each_predecessor() -> None:
    names = [page.stem.removeprefix("coming-from-") for page in PAGES]
    assert names == ["cornerstone-archive", "direclaw", "mcpproxy-go", "omoios"]
    linked = (ROOT / "docs" / "how-to" / "come-from-another-tool.md").read_text()
    assert [page.name for page in PAGES if f"../reference/{page.name}" not in linked] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_understood(page: Path) -> None:
    commands = list(typed(page.read_text(encoding="utf-8")))
    assert commands
    for words in commands:
        parse(words)


def test_the_services_call_commands_that_are_understood() -> None:
    units = [path for path in UNITS.iterdir() if path.suffix == ".service"]
    lines = [re.findall(r"^ExecStart=\S+/supervisor (.*)$", path.read_text(), re.MULTILINE) for path in units]
    assert all(lines)
    for (line,) in lines:
        parse(line.replace("%i", "OrionMX").split())


def test_the_scheduled_task_runs_a_pass_that_is_never_doubled_and_never_cut_off() -> None:
    task = ET.parse(UNITS / "supervisor-pass.xml").getroot()
    assert task.tag == f"{TASKS}Task"

    def text(name: str) -> str:
        (found,) = task.iter(f"{TASKS}{name}")
        return found.text or ""

    assert (text("Interval"), text("MultipleInstancesPolicy"), text("ExecutionTimeLimit")) == (
        "PT2M",
        "IgnoreNew",
        "PT0S",
    )
    assert text("Command").endswith("\\supervisor.exe")
    arguments = text("Arguments").split()
    parse(arguments)
    assert arguments[:4] == ["once", "--worker-id", "OrionMX", "--heal"]
