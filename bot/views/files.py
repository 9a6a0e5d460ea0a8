"""A file for Slack as a value and as a row's payload; and as a message where Slack takes no file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.views.blocks import Content, code_message, context, section
from bot.views.text import escape, fit
from supervisor_core.common.text import storable

MOST_BYTES = 2_000_000
"""Of one file. A list of ten thousand audit rows is smaller; and the row that keeps it is read at each try."""

CUT = "… cut here: the file would be larger than {most} bytes"


@dataclass(frozen=True, slots=True)
class Attachment:
    """One file. What is too long of a text is cut at the end of a line, and the last line then says so."""

    name: str
    """With its ending, by which Slack shows it: `audit.csv`."""
    content: str
    rest: str
    """The place of the whole, in Slack's markup: "`supervisor audit --csv` on OrionMX". It is shown where something was
    cut, or where Slack takes no file."""
    title: str = ""
    """As it is shown; empty: its name."""
    comment: str = ""
    """The text above it, in Slack's markup, with its data escaped."""

    @property
    def data(self) -> bytes:
        return self.content.encode()

    def as_payload(self) -> dict[str, Any]:
        return {
            "filename": self.name,
            "title": self.title or self.name,
            "comment": self.comment,
            "rest": self.rest,
            "content": cut(storable(self.content)),
        }

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Attachment:
        return cls(
            name=str(payload["filename"]),
            content=str(payload["content"]),
            rest=str(payload.get("rest") or ""),
            title=str(payload.get("title") or ""),
            comment=str(payload.get("comment") or ""),
        )


def cut(text: str) -> str:
    if len(text.encode()) <= MOST_BYTES:
        return text
    words = CUT.format(most=MOST_BYTES)
    kept = text.encode()[: MOST_BYTES - len(words.encode()) - 1].decode(errors="ignore")
    whole, _, _ = kept.rpartition("\n")
    return f"{whole or kept}\n{words}"


COMMENT, NAME, REST = 700, 200, 700  # characters

EMPTY, UNREADABLE = "empty", "unreadable"
"""In the place of Slack's word, where it was not even asked."""

_WHY = {
    UNREADABLE: "it can't be read on this host right now",
    "file_uploads_disabled": "this workspace doesn't accept files from apps",
    "missing_scope": "the app lacks the scope `files:write`; `supervisor doctor` says how to add it",
}


def file_text(file: Attachment, refused: str) -> Content:
    """The message in the place of a file; `refused` is Slack's error code."""
    name = f"*{escape(fit(file.title or file.name, NAME))}*"
    head = "\n".join(filter(None, [fit(file.comment, COMMENT), name]))
    why = _WHY.get(refused, f"Slack doesn't accept files in this channel ({escape(fit(refused, NAME))})")
    if refused == UNREADABLE:
        return _with_words({"text": head, "blocks": [section(head)]}, f"The file isn't attached: {why}.", file.rest)
    if not file.content.strip():
        return _with_words({"text": head, "blocks": [section(head)]}, "It is empty.", "")
    shown = code_message(file.content)
    blocks, was_cut = shown["blocks"], shown["blocks"][-1]["type"] == "context"
    blocks = [section(head), *(blocks[:-1] if was_cut else blocks)]
    said = f"*It was cut*: {why}." if was_cut else f"Shown as text: {why}."
    return _with_words({"text": f"{head}\n{shown['text']}", "blocks": blocks}, said, file.rest if was_cut else "")


def _with_words(content: Content, said: str, rest: str) -> Content:
    words = f"{said} In full: {fit(rest, REST)}" if rest else said
    text = fit(str(content["text"]), 2900 - len(words) - 1)
    return {"text": f"{text}\n{words}", "blocks": [*content["blocks"], context(words)]}
