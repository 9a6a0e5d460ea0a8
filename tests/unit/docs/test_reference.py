"""The reference pages and the example say what the code says."""

from __future__ import annotations

import os

import pytest

from supervisor_core.common.events import EventType
from supervisor_core.storage.tables import metadata
from supervisor_core.workers.health import Health, WorkerState
from tests.reference import markdown, settings
from tests.reference.pages import PAGES
from tests.support.homes import ROOT

UPDATE = "UPDATE_REFERENCE"


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_file_is_up_to_date(path: str) -> None:
    text, file = PAGES[path](), ROOT / path
    if os.environ.get(UPDATE):
        file.write_text(text, encoding="utf-8", newline="\n")
    if file.read_text(encoding="utf-8") != text:
        pytest.fail(f"{path} is outdated. Run `make reference`, or this test with {UPDATE}=1.", pytrace=False)


def test_every_setting_column_and_event_has_a_sentence() -> None:
    described: dict[str, str | None] = {
        each.key: each.description for page in settings.sections() for each in page.settings
    }
    described |= {f"section {page.key}": page.description for page in settings.sections()}
    for owner in metadata.tables.values():
        described |= {owner.name: owner.info["description"], **{f"{owner.name}.{c.name}": c.doc for c in owner.columns}}
    for kind in (EventType, Health, WorkerState):
        docs = markdown.attribute_docs(kind)
        described |= {f"{kind.__name__}.{each.name}": docs.get(each.name) for each in kind}
    sections_of_sections = {"workers", "teams"}  # whose keys somebody chooses: the section of a key has the description
    missing = [
        name for name, text in described.items() if name not in sections_of_sections and not (text or "").endswith(".")
    ]
    assert missing == []
