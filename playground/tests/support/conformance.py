"""The page docs/conformance.md, from docs/conformance.yaml and the methods of the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from slack_playground.web_api.methods import METHODS
from slack_playground.world.event_payloads import EVENTS
from slack_playground.world.faults import TIERS

Json = dict[str, Any]

DOCS = Path(__file__).parents[2] / "docs"
PAGE, DATA = DOCS / "conformance.md", DOCS / "conformance.yaml"

HEAD = """# Conformance with Slack

Generated from [conformance.yaml](conformance.yaml) and the code. "Like Slack" is backed by the sources in the same row:
Slack's documentation, its SDKs, or reports of people who saw it. A guess is what nobody has published. Nothing was
measured against Slack itself.
"""
COLUMNS = {"like": "Like Slack", "guess": "Guesses", "lacks": "Lacks"}
SECTIONS = {
    "methods": ("Web API methods", "Method"),
    "web_api": ("Web API in general", "Subject"),
    "events": ("Events", "Event"),
    "delivery": ("Delivery of events", "Subject"),
    "socket_mode": ("Socket Mode", "Subject"),
    "interactions": ("Commands and interactions", "Payload"),
    "surfaces": ("Block Kit: surfaces and objects", "Subject"),
    "blocks": ("Block Kit: blocks", "Block"),
    "elements": ("Block Kit: elements", "Element"),
    "mrkdwn": ("Text", "Subject"),
    "manifest": ("Manifest", "Subject"),
}
CODE = ("methods", "events", "blocks", "elements")
"""Sections whose names are words of the code."""


def data() -> Json:
    """All rows, by section, and the aliases."""
    loaded: Json = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return loaded


def rows(every: Json) -> Iterator[tuple[str, Json]]:
    """Each row with its section."""
    for section in SECTIONS:
        for row in every[section]:
            yield section, row


def address(source: str, name: str, aliases: dict[str, str]) -> str:
    """The URL of a source: itself, or what its alias stands for."""
    if source.startswith("https://"):
        return source
    alias, _, rest = source.partition(":")
    return aliases[alias].format(name=name, rest=rest)


def label(source: str) -> str:
    """A short name of a source."""
    alias, _, rest = source.partition(":")
    if alias == "issue":
        return re.sub(r"/(?:issues|pull)/", "#", rest)
    if alias == "https":
        return (urlsplit(source).hostname or "").removeprefix("www.")
    names = {
        "types": "Node types",
        "node": "Node SDK",
        "java": "Java SDK",
        "python": "Python SDK",
        "elements": "elements",
    }
    return {"docs": "docs", "event": "docs", "slack": "docs", "block": "docs", **names}.get(alias, "reference data")


def _sources(row: Json, aliases: dict[str, str]) -> str:
    links = (f"[{label(each)}]({address(each, row['name'], aliases)})" for each in row.get("sources", ()))
    return " · ".join(links)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    shown = [[each.replace("|", "\\|") for each in line] for line in lines]
    kept = [n for n in range(len(head)) if any(line[n] for line in shown)]
    out = [[head[n] for n in kept], ["---"] * len(kept), *([line[n] for n in kept] for line in shown)]
    return "".join(f"| {' | '.join(line)} |\n" for line in out)


def _words(words: Iterable[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


def _interface(every: Json) -> str:
    """The methods as the code has them, with their errors."""
    lines = []
    for row in every["methods"]:
        method = METHODS[row["name"]]
        rate = "special" if method.tier == "t5" else str(TIERS[method.tier])
        token = "app token" if method.app_token else " or ".join(f"`{scope}`" for scope in method.scopes)
        errors = _words(row.get("errors", ())), _words(row.get("guessed_errors", ()))
        lines.append((f"`{row['name']}`", token, rate, _words(method.required), _words(method.optional), *errors))
    head = (
        "Method",
        "Scope",
        "Calls a minute",
        "Required",
        "Optional",
        "Errors that Slack publishes",
        "Guessed errors",
    )
    return "## Arguments, rates and errors of the methods\n\n" + _table(head, lines)


def page() -> str:
    """The whole page."""
    every = data()
    parts = [HEAD]
    for section, (title, first) in SECTIONS.items():
        lines = []
        for row in every[section]:
            name = f"`{row['name']}`" if section in CODE else row["name"]
            if section == "events" and EVENTS[row["name"]]:
                name += f" ({' or '.join(f'`{scope}`' for scope in EVENTS[row['name']])})"
            if section == "web_api" and (row.get("errors") or row.get("guessed_errors")):
                name += f" ({_words([*row.get('errors', ()), *row.get('guessed_errors', ())])})"
            told = [row.get(column, "") for column in COLUMNS]
            lines.append((name, *told, _sources(row, every["aliases"])))
        parts.append(f"## {title}\n\n" + _table((first, *COLUMNS.values(), "Sources"), lines))
        if section == "methods":
            parts.append(_interface(every))
    return "\n".join(parts)
