"""The conformance page has a row for everything that the playground serves, with sources, and is up to date."""

from __future__ import annotations

import os
from collections import Counter

from playground.tests.support import conformance
from slack_playground.blockkit import blocks, elements
from slack_playground.web_api.methods import HANDLERS, METHODS
from slack_playground.world.event_payloads import EVENTS

EVERY = conformance.data()
SHAPES = (elements.IN_SECTION, elements.IN_ACTIONS, elements.IN_INPUT)
SERVED = {
    "methods": set(METHODS) & set(HANDLERS),
    "events": set(EVENTS),
    "blocks": set(blocks.BLOCK.shapes),
    "elements": {tag for each in SHAPES for tag in each.shapes},
}


def test_everything_that_is_served_has_one_row_and_nothing_else_has_one():
    for section, served in SERVED.items():
        names = Counter(row["name"] for row in EVERY[section])
        assert set(names) == served, "add its row to docs/conformance.yaml, or take it out"
        assert [name for name, count in names.items() if count > 1] == []


def test_the_page_is_up_to_date():
    if os.environ.get("UPDATE_CONFORMANCE"):
        conformance.PAGE.write_text(conformance.page(), encoding="utf-8", newline="\n")
    current = conformance.PAGE.read_text(encoding="utf-8")
    assert current == conformance.page(), "run UPDATE_CONFORMANCE=1 pytest playground/tests/test_conformance.py"
