"""The types that all formats share: an alert's document, the requests made from it, and its key at the receiver."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from supervisor_core.alerts.rules import Reason
from supervisor_core.common.times import from_text

AlertDocument = Mapping[str, Any]
"""The document of one message of an alert, as `documents.document` makes it, with its delivery id."""

CLIENT = "supervisor-chatops"
DETAILS = ("condition", "severity", "reason", "host", "target", "since", "occurrences", "alert", "parent")
"""The facts that a format lists if it has no fields for them."""


class HttpCall(NamedTuple):
    """A POST."""

    url: str
    body: bytes
    headers: Mapping[str, str]


def key_of(document: AlertDocument) -> str:
    """The key of the alert at the receiver: the same from the first message to the last, and on every host another.

    A host's name has at most 64 characters and an alert's id few, so it fits everywhere."""
    return f"{document['host']}/{document['alert']}"


def is_over(document: AlertDocument) -> bool:
    return str(document["event"]) == Reason.RESOLVED


def is_acknowledgement(document: AlertDocument) -> bool:
    return str(document["event"]) == Reason.ACKNOWLEDGED


def cut(text: object, most: int) -> str:
    """The text with at most so many characters."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def details_of(document: AlertDocument) -> dict[str, str]:
    """The facts of an alert as text, without empty ones."""
    target = document["target"]
    facts = {**document, "target": f"{target['type']} {target['id']}"}
    return {name: str(facts[name]) for name in DETAILS if facts.get(name) not in (None, "")}


def moment(document: AlertDocument, name: str, later: timedelta = timedelta()) -> str:
    """A time of the document in RFC 3339, or so much later."""
    at: datetime = from_text(document[name]) + later
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
