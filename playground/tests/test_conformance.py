"""The conformance page has a row for everything that the playground serves, with sources, and is up to date."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import slack_playground.server  # all that is served is registered
from playground.tests.support import conformance
from slack_playground.blockkit import blocks, elements
from slack_playground.web_api.methods import HANDLERS, METHODS
from slack_playground.world.event_payloads import EVENTS

EVERY = conformance.data()
ROWS = list(conformance.rows(EVERY))
SHAPES = (elements.IN_SECTION, elements.IN_ACTIONS, elements.IN_INPUT)
SERVED = {
    "methods": set(METHODS) & set(HANDLERS),
    "events": set(EVENTS),
    "blocks": set(blocks.BLOCK.shapes),
    "elements": {tag for each in SHAPES for tag in each.shapes},
}
FIELDS = {"name", "like", "guess", "lacks", "errors", "guessed_errors", "sources"}
PACKAGE = Path(slack_playground.__file__).parent


def test_everything_that_is_served_has_one_row_and_nothing_else_has_one():
    for section, served in SERVED.items():
        names = Counter(row["name"] for row in EVERY[section])
        assert set(names) == served, "add its row to docs/conformance.yaml, or take it out"
        assert [name for name, count in names.items() if count > 1] == []


def test_a_claim_has_sources():
    for section, row in ROWS:
        assert set(row) <= FIELDS, section
        assert row.get("like") or row.get("guess") or row.get("lacks"), f"{row['name']}: an empty row"
        if row.get("like") or row.get("errors"):
            assert row.get("sources"), f"{row['name']}: a claim without a source is a guess"
        for source in row.get("sources", ()):
            address = conformance.address(source, row["name"], EVERY["aliases"])
            assert address.startswith("https://")
            assert not {"{", " "} & set(address), address


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
