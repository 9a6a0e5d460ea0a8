"""A second opinion on every message and view of the golden files: Slack's own models take them, and lose nothing.

The models know lengths and kinds. What they don't know they drop, so a field that is missing afterwards is one that the
SDK has no name for. They agree with all that we send, so there is no list of exceptions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.models.attachments import BlockAttachment
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(GOLDEN.glob("*.json"))
VIEWS = ("modal", "home")


def payloads(document: Any) -> Iterator[tuple[str, Any]]:
    """Every view, message and bare list of blocks in a golden file."""
    if isinstance(document, list) and document and all(isinstance(each, dict) and "type" in each for each in document):
        yield "blocks", document
    elif isinstance(document, list):
        for each in document:
            yield from payloads(each)
    elif isinstance(document, dict) and document.get("type") in VIEWS:
        yield "view", document
    elif isinstance(document, dict) and ("blocks" in document or "attachments" in document or "text" in document):
        yield "message", document
    elif isinstance(document, dict):
        for each in document.values():
            yield from payloads(each)


def reread(kind: str, payload: Any) -> Any:
    """The payload as Slack's models write it; `SlackObjectFormationError` for what they refuse."""
    if kind == "blocks":
        known: list[Block | None] = [*Block.parse_all(payload)]  # None stands for a block of an unknown kind
        return [block.to_dict() for block in known if block is not None]
    if kind == "view":
        return View(**payload).to_dict()
    written = dict(payload)
    if "blocks" in payload:
        written["blocks"] = reread("blocks", payload["blocks"])
    if "attachments" in payload:
        written["attachments"] = [_attachment(each) for each in payload["attachments"]]
    return written


def _attachment(given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in given.items() if name != "blocks"}
    return BlockAttachment(blocks=Block.parse_all(given["blocks"]), **fields).to_dict()


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where the two aren't the same, by the path without numbers."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            there = f"{path}.{name}".removeprefix(".")
            if name in ours and name in theirs:
                yield from differences(ours[name], theirs[name], there)
            else:
                yield f"{there} {'is dropped' if name in ours else 'is added'}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            yield from differences(one, other, f"{path}[]")
    elif ours != theirs:
        yield f"{path} differs"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_slack_s_models_take_it_and_lose_nothing(path: Path) -> None:
    found = list(payloads(json.loads(path.read_text(encoding="utf-8"))))
    assert found, "a golden file without a message or a view: say here what it is"
    for kind, payload in found:
        assert set(differences(payload, reread(kind, payload))) == set()
