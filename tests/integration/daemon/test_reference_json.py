"""The command-line reference names every key that `--json` prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.homes import ROOT, a_home

FREE = ("details", "evidence", "actions")
"""Keys whose content depends on the command."""


def keys(document: Any) -> Iterator[str]:
    """All keys of a document, also within its lists and objects."""
    if isinstance(document, list):
        for each in document:
            yield from keys(each)
    elif isinstance(document, dict):
        for key, value in document.items():
            yield key
            if key not in FREE:
                yield from keys(value)


def section(name: str) -> str:
    """What the page says about a subcommand."""
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    return page.split(f"\n## supervisor {name}\n")[1].split("\n## ")[0]


def test_every_key_of_a_json_document_is_on_the_page(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        home.start_daemon()
        documents = {
            "send": [
                home.json("send", "pause OrionMX test", "--wait"),
                home.json("send", "resume"),
                home.json("send", "schedule add nightly '0 3 * * *' restart OrionMX"),
                home.json("send", "schedule list"),
                home.json("send", "mute OrionMX 1h test"),
                home.json("send", "teams"),
            ],
            "status": [home.json("status"), home.json("status", "OrionMX")],
            "logs": [home.json("logs", "OrionMX")],
            "alerts": [home.json("alerts"), home.json("alerts", "--uptime")],
            "approvals": [home.json("approvals")],
            "audit": [home.json("audit", "verify")],
            "doctor": [home.json("doctor")],
        }
    texts = {name: section(name) for name in documents}
    missing = {
        name: sorted({key for key in keys(found) if f"`{key}`" not in texts[name]}) for name, found in documents.items()
    }
    assert {name: found for name, found in missing.items() if found} == {}
