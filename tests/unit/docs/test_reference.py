"""The reference pages and the example say what the code says."""

from __future__ import annotations

import os
import re
from functools import cache

import pytest

from bot.outbound.messages import KINDS
from supervisor_core.cli import ALIASES, COMMANDS
from supervisor_core.cli.options import ACTIONS, SUBCOMMANDS
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.common.events import EventType
from supervisor_core.storage.tables import metadata
from supervisor_core.workers.health import Health, WorkerState
from tests.reference import files, markdown, settings, tables
from tests.reference.pages import PAGES
from tests.support.homes import ROOT

UPDATE = "UPDATE_REFERENCE"
SHOWN = [name for name in COMMANDS if name not in ("daemon", *ALIASES)] + [f"daemon {action}" for action in ACTIONS]
"""The subcommands of the page, without short forms."""


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_file_is_up_to_date(path: str) -> None:
    text, file = PAGES[path](), ROOT / path
    if os.environ.get(UPDATE):
        file.write_text(text, encoding="utf-8", newline="\n")
    if file.read_text(encoding="utf-8") != text:
        pytest.fail(f"{path} is outdated. Run `make reference`, or this test with {UPDATE}=1.", pytrace=False)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("docs/reference/commands.md", [f"### {name}" for name in CATALOG]),
        (
            "docs/reference/command-line.md",
            [f"## supervisor {name}" if name in SUBCOMMANDS else f"| `supervisor {name}" for name in SHOWN],
        ),
        ("docs/reference/events.md", [f"| `{each}` |" for each in EventType]),
        ("docs/reference/tables.md", [f"## {name}" for name in metadata.tables]),
    ],
)
def test_a_page_has_everything(path: str, words: list[str]) -> None:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert [each for each in words if not any(line.startswith(each) for line in lines)] == []


def test_every_setting_column_and_event_has_a_sentence() -> None:
    described: dict[str, str | None] = {
        each.key: each.field.description for page in settings.sections() for each in page.settings
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


def test_every_column_of_a_few_values_names_them() -> None:
    few = {f"{owner.name}.{column.name}" for owner in metadata.tables.values() for column in owner.columns}
    states = {
        name for name in few if name.endswith((".state", ".status", ".last_state", ".kind", ".choice", ".severity"))
    }
    open_ended = {"workers_t.status", "outbox_t.kind", "envelopes_t.kind"}  # a worker's own word; see the description
    assert states - open_ended <= set(tables.VALUES) <= few


@cache
def literals() -> str:
    """The text of all modules, to look for the names of files in."""
    return "\n".join(
        path.read_text(encoding="utf-8") for tree in ("supervisor_core", "bot") for path in (ROOT / tree).rglob("*.py")
    )


@pytest.mark.parametrize("name", [*files.HOME, *files.DRIVE])
def test_the_code_names_every_file_of_the_page(name: str) -> None:
    parts = [part for part in re.split(r"ID|HASH|HANDLER|COMMAND|NAME|TIME|/", name) if part not in ("", "_", ".json")]
    assert all(part.strip("_") in literals() for part in parts)


def test_a_template_must_use_every_text_and_no_other() -> None:
    with pytest.raises(ValueError, match="has places for"):
        markdown.fill("tables.md", {"overview": "", "unknown": ""})


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90 * 86400, "90 days"), (86400, "1 day"), (300, "5 minutes"), (1.3, "1.3 seconds"), (0.5, "0.5 seconds")],
)
def test_a_duration_is_said_in_its_largest_unit(seconds: float, words: str) -> None:
    assert markdown.duration(seconds) == words


def test_the_security_page_names_every_module_of_attacks() -> None:
    page = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")
    attacks = {path.name for path in (ROOT / "tests" / "faults" / "security").glob("test_*.py")}
    assert {name for name in attacks if f"`{name}`" not in page} == set()


def test_the_page_about_slack_has_every_kind_of_message() -> None:
    page = (ROOT / "docs" / "explanation" / "slack.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []
