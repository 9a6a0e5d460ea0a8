"""The reference names every key that `--json` prints, and every detail of a code change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.code.code_homes import a_code_host
from tests.support.code.repositories import origin_and_checkout
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


def test_every_detail_of_a_code_change_is_on_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    text = page.split("\n### Details of code changes\n")[1].split("\n## ")[0]
    code = origin_and_checkout(tmp_path / "code")
    with a_code_host(tmp_path / "host", code.checkout.folder) as host:
        host.start()
        rollback = host.did("rollback 2 hotfix")
        undo = host.did("undo")
        code.comes_in({"new.txt": "new\n"})
        changes = (rollback, undo, host.did("update"), host.did("update"))
    by_worker = {"OrionMX"}
    found = {key for done in changes for key in keys(dict(done.details))}
    assert sorted(key for key in found - by_worker if f"`{key}`" not in text) == []
