"""The documents say the same as the code, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from supervisor_core.cli import COMMANDS, FAILURE, INTERRUPTED, SUCCESS, USAGE
from supervisor_core.commands.catalog import FLAG_HANDLERS, by_handler
from supervisor_core.commands.catalog import HANDLERS as FLAG_NAMES
from supervisor_core.daemon.handlers import HANDLERS
from supervisor_core.workers.health import Health, WorkerState
from tests.support.homes import ROOT

RUNBOOK = ROOT / "docs" / "SUPERVISOR_RUNBOOK.md"
SYMPTOMS = sorted((ROOT / "docs" / "runbook").glob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "playground").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor[1:] in anchors(there), f"{page.name} links to {target}{anchor}"


def test_every_picture_of_a_terminal_is_taken_from_a_run_and_shown() -> None:
    shown = {Path(target).name for page in PAGES for target, _ in LINK.findall(page.read_text())}
    pictures = {picture.name for picture in (ROOT / "docs" / "images").glob("terminal_*")}
    assert pictures <= shown
    taken = set(re.findall(r'"(terminal_\w+\.png)"', (ROOT / "tests/support/diagnosis/terminal_scenes.py").read_text()))
    assert taken == pictures


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(ROOT / "docs"))
        assert page in SYMPTOMS or name == "README.md" or f"({name})" in index, f"{name} is not in docs/README.md"


def test_every_dependency_has_its_sentence() -> None:
    text = (ROOT / "docs" / "explanation" / "dependencies.md").read_text().lower()
    project = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'^\s+"([A-Za-z0-9-]+)(?:\[[a-z]+\])?[>=]', project, re.MULTILINE)
    assert len(names) > 10
    for name in names:
        assert name.lower() in text, name


def table_rows(text: str) -> list[list[str]]:
    """The cells of all rows of all tables on a page."""
    rows = (line for line in text.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_the_reference_has_every_flag_that_a_handler_carries_out() -> None:
    text = (ROOT / "docs" / "reference" / "files.md").read_text().split("\n### Flag parameters")[1].split("\n## ")[0]
    rows = {row[0].strip("`"): row[1].strip("`") for row in table_rows(text) if row[0].startswith("`")}
    assert set(rows) == set(FLAG_NAMES) == set(HANDLERS)
    for handler, command in rows.items():
        definition = by_handler(handler)
        assert definition is not None
        assert command == definition.name
    how_to = (ROOT / "docs" / "how-to" / "drop-flags.md").read_text()
    assert {name for name in set(FLAG_HANDLERS) - set(FLAG_NAMES) if f"`{name}`" not in how_to} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_types_subcommands_that_exist(page: Path) -> None:
    typed = re.findall(r"(?:^ *\$|;) supervisor ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert set(typed) <= set(COMMANDS)


def test_the_reference_has_every_exit_code() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    section = text.split("\n## Exit codes")[1].split("\n## ")[0]
    codes = [row[0] for row in table_rows(section) if row[0].isdigit()]
    assert codes == [str(code) for code in (SUCCESS, FAILURE, USAGE, INTERRUPTED)] == ["0", "1", "2", "130"]


def test_the_runbook_knows_every_word_for_a_worker_that_is_unwell() -> None:
    seen = " ".join(row[0] for row in table_rows(RUNBOOK.read_text()))
    unwell = {WorkerState.STUCK, WorkerState.BACKING_OFF, WorkerState.QUARANTINED}
    for word in (*(health for health in Health if health is not Health.HEALTHY), *unwell, "paused"):
        assert f"`{word}" in seen, word


def test_the_runbook_links_every_symptom() -> None:
    linked = {target for target, _ in LINK.findall(RUNBOOK.read_text())}
    assert {f"runbook/{page.name}" for page in SYMPTOMS} <= linked


def test_the_page_of_passes_keeps_workers_alive_when_a_pass_is_over() -> None:
    page = (ROOT / "docs" / "how-to" / "run-passes.md").read_text()
    units = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    service = next(unit for unit in units if "Type=oneshot" in unit)
    assert {"KillMode=process", "OOMPolicy=continue"} <= set(service.splitlines())
