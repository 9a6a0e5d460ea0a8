"""A file as words, where Slack takes no file: as much of it as a message holds, and where the rest is. Pure."""

from __future__ import annotations

from bot.attached import Attached
from bot.views.text import escape, fit
from bot.views.told import Content, context, listing, section

COMMENT, NAME, REST = 700, 200, 700  # characters

EMPTY, UNREADABLE = "empty", "unreadable"
"""In the place of Slack's word, where it was not even asked."""

_WHY = {
    UNREADABLE: "it can't be read from here now",
    "file_uploads_disabled": "this workspace takes no files from apps",
    "missing_scope": "the app lacks the scope `files:write`; `supervisor doctor` says how to add it",
}


def in_words(file: Attached, refused: str) -> Content:
    """What is told in its place; `refused` is Slack's own word for why it takes no file."""
    name = f"*{escape(fit(file.title or file.name, NAME))}*"
    head = "\n".join(filter(None, [fit(file.comment, COMMENT), name]))
    why = _WHY.get(refused, f"Slack takes it not as a file here ({escape(fit(refused, NAME))})")
    if file.text is None:
        return _with_words({"text": head, "blocks": [section(head)]}, f"It can't be shown: {why}.", file.rest)
    if refused == UNREADABLE:
        return _with_words({"text": head, "blocks": [section(head)]}, f"The file is not here: {why}.", file.rest)
    if not file.text.strip():
        return _with_words({"text": head, "blocks": [section(head)]}, "It is empty.", "")
    shown = listing(file.text)
    blocks, was_cut = shown["blocks"], shown["blocks"][-1]["type"] == "context"
    blocks = [section(head), *(blocks[:-1] if was_cut else blocks)]
    said = f"*It was cut*: {why}." if was_cut else f"Told as text: {why}."
    return _with_words({"text": f"{head}\n{shown['text']}", "blocks": blocks}, said, file.rest if was_cut else "")


def _with_words(content: Content, said: str, rest: str) -> Content:
    """With what became of it. A file that is whole says nothing of a rest."""
    words = f"{said} All of it: {fit(rest, REST)}" if rest else said
    text = fit(str(content["text"]), 2900 - len(words) - 1)
    return {"text": f"{text}\n{words}", "blocks": [*content["blocks"], context(words)]}
