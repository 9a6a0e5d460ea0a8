"""A file on its way to Slack, as a value and as the words of a row."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from supervisor_core.domain.texts import storable

MOST_BYTES = 2_000_000
"""Of one file. A list of ten thousand audit rows is smaller; and the row that keeps it is read at each try."""

CUT = "… cut here: the file would be larger than {most} bytes"


@dataclass(frozen=True, slots=True)
class Attached:
    """One file. What is too long of a text is cut at the end of a line, and the last line then says so."""

    name: str
    """With its ending, by which Slack shows it: `audit.csv`."""
    content: str | bytes
    rest: str
    """Where all of it is, in Slack's markup: "`supervisor audit --csv` on OrionMX". It is said where something was cut,
    or where Slack takes no file."""
    title: str = ""
    """As it is shown; empty: its name."""
    comment: str = ""
    """What stands above it, in Slack's markup: data in it is escaped by whoever writes it."""
    alt: str = ""
    """What a picture shows, for whoever can't see it."""

    @property
    def data(self) -> bytes:
        """The bytes that are sent."""
        return self.content if isinstance(self.content, bytes) else self.content.encode()

    @property
    def text(self) -> str | None:
        """What can be shown of it as text."""
        return self.content if isinstance(self.content, str) else None

    def as_payload(self) -> dict[str, Any]:
        """As a row keeps it."""
        if isinstance(self.content, bytes):
            if len(self.content) > MOST_BYTES:
                raise ValueError(f"{self.name} has more than {MOST_BYTES} bytes")
            kept = {"base64": base64.b64encode(self.content).decode()}
        else:
            kept = {"content": cut(storable(self.content))}
        words = {"filename": self.name, "title": self.title or self.name, "comment": self.comment, "alt": self.alt}
        return {**words, "rest": self.rest, **kept}

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Attached:
        """From a row."""
        coded = payload.get("base64")
        return cls(
            name=str(payload["filename"]),
            content=base64.b64decode(coded) if coded is not None else str(payload["content"]),
            rest=str(payload.get("rest") or ""),
            title=str(payload.get("title") or ""),
            comment=str(payload.get("comment") or ""),
            alt=str(payload.get("alt") or ""),
        )


def cut(text: str) -> str:
    """As much of it as a file may have, in whole lines."""
    if len(text.encode()) <= MOST_BYTES:
        return text
    words = CUT.format(most=MOST_BYTES)
    kept = text.encode()[: MOST_BYTES - len(words.encode()) - 1].decode(errors="ignore")
    whole, _, _ = kept.rpartition("\n")
    return f"{whole or kept}\n{words}"
