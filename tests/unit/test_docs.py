"""The documents say the same as the code, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from supervisor_core.cli import COMMANDS
from supervisor_core.ledger.tables import metadata
from tests.support.homes import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
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


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = str(page.relative_to(ROOT / "docs"))
        assert name == "README.md" or f"({name})" in index, f"{name} is not in docs/README.md"


def test_every_subcommand_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for name in COMMANDS:
        assert f"| `supervisor {name}" in text, name


def test_every_table_and_column_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "tables.md").read_text()
    for table in metadata.sorted_tables:
        section = text.split(f"## {table.name}")[1].split("\n## ")[0]
        for column in table.columns:
            assert f"`{column.name}`" in section, f"{table.name}.{column.name}"


def test_every_dependency_has_its_sentence() -> None:
    text = (ROOT / "docs" / "explanation" / "dependencies.md").read_text().lower()
    project = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'^\s+"([A-Za-z0-9-]+)(?:\[[a-z]+\])?[>=]', project, re.MULTILINE)
    assert len(names) > 10
    for name in names:
        assert name.lower() in text, name
