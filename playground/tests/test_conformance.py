"""The conformance page has a row for everything that the playground serves, with sources, and is up to date."""

from __future__ import annotations

import ast
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import slack_playground.server  # all that is served is registered
from playground.tests.support import conformance
from slack_playground.blockkit import blocks, elements
from slack_playground.web_api.methods import HANDLERS, METHODS
from slack_playground.world.event_payloads import EVENTS

EVERY = conformance.data()
ROWS = list(conformance.rows(EVERY))
SHAPES = (elements.IN_SECTION, elements.IN_ACTIONS, elements.IN_INPUT, elements.IN_CARD, elements.IN_CONTEXT_ACTIONS)
SERVED = {
    "methods": set(METHODS) & set(HANDLERS),
    "events": set(EVENTS),
    "blocks": set(blocks.BLOCK.shapes),
    "elements": {tag for each in SHAPES for tag in each.shapes},
}
FIELDS = {"name", "like", "guess", "lacks", "errors", "guessed_errors", "sources"}
PACKAGE = Path(slack_playground.__file__).parent


@pytest.mark.parametrize("section", SERVED)
def test_everything_that_is_served_has_one_row_and_nothing_else_has_one(section: str):
    names = Counter(row["name"] for row in EVERY[section])
    assert set(names) == SERVED[section], "add its row to docs/conformance.yaml, or take it out"
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(("section", "row"), ROWS, ids=[f"{section}: {row['name']}" for section, row in ROWS])
def test_a_claim_has_sources(section: str, row: dict[str, Any]):
    assert set(row) <= FIELDS
    assert row.get("like") or row.get("guess") or row.get("lacks"), "an empty row"
    if row.get("like") or row.get("errors"):
        assert row.get("sources"), "a claim without a source is a guess"
    for source in row.get("sources", ()):
        address = conformance.address(source, row["name"], EVERY["aliases"])
        assert address.startswith("https://")
        assert "{" not in address
        assert " " not in address


def raised() -> set[str]:
    """The error names in the code of the Web API, of the grants and of the Block Kit checker."""
    files = [*(PACKAGE / "web_api").glob("*.py"), *(PACKAGE / "blockkit").glob("*.py"), PACKAGE / "world" / "grants.py"]
    found = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("SlackError", "Report")
            ):
                found |= {each.value for arg in node.args for each in ast.walk(arg) if isinstance(each, ast.Constant)}
    return {str(word) for word in found if isinstance(word, str) and word.replace("_", "").isalpha() and "_" in word}


def test_every_error_name_of_the_code_is_on_the_page():
    listed = {error for _, row in ROWS for error in (*row.get("errors", ()), *row.get("guessed_errors", ()))}
    assert raised() - listed - {"invalid_ts_"} == set(), "name it in docs/conformance.yaml, as published or as a guess"


def test_every_error_name_on_the_page_is_in_the_code():
    code = "".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    listed = {error for _, row in ROWS for error in (*row.get("errors", ()), *row.get("guessed_errors", ()))}
    made_up = {"invalid_ts_oldest", "invalid_ts_latest"}  # from one pattern
    assert {error for error in listed - made_up if f'"{error}"' not in code} == set()


def test_the_page_is_up_to_date():
    if os.environ.get("UPDATE_CONFORMANCE"):
        conformance.PAGE.write_text(conformance.page(), encoding="utf-8", newline="\n")
    current = conformance.PAGE.read_text(encoding="utf-8")
    assert current == conformance.page(), "run UPDATE_CONFORMANCE=1 pytest playground/tests/test_conformance.py"
