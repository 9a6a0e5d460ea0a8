"""Text made safe for every database, file and terminal; near misses of words; canonical JSON; random ids. Pure."""

from __future__ import annotations

import json
import os
import re
import string
from collections.abc import Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def storable(text: str) -> str:
    """Escape what UTF-8 (a lone surrogate) or PostgreSQL (a NUL) rejects."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def is_plain(text: str) -> bool:
    """True for valid Unicode: bytes that weren't UTF-8 are lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Escape everything that a terminal would execute instead of showing."""
    return "".join(each if each in "\n\t" or each.isprintable() else escape(each) for each in text)


def one_line(text: str, most: int) -> str:
    """Fit the text into one line of at most so many characters: escape unprintable ones and cut the rest."""
    # Cut first as well: a file of some megabytes must not become an escaped one of many.
    kept = text[: most + 1]
    line = kept if kept.isprintable() else "".join(each if each.isprintable() else escape(each) for each in kept)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def escape(character: str) -> str:
    """Escape a character as Python does."""
    return character.encode("unicode_escape").decode()


def sentence(text: str) -> str:
    """End the text with a period, so another sentence can follow."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", ":", "…")) else f"{text}."


def capitalize(text: str, *names: str) -> str:
    """Capitalize the first letter. A name at the start keeps its case."""
    if text.startswith(names) and re.split(r"[\s:,;']", text, maxsplit=1)[0] in names:
        return text
    return f"{text[:1].upper()}{text[1:]}"


def flatten(text: str) -> str:
    """Join the text into one line with single spaces."""
    return " ".join(text.split())


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


MAX_COMPARED = 80  # characters: no name here is longer, and hostile text is not worth the arithmetic
BEGUN = 3  # characters: from here on the beginning of a word is enough to suggest it
SHORT = 4  # characters: up to here one slip is already a quarter of the word


def edit_distance(one: str, other: str, limit: int) -> int:
    """Letters wrong, missing, extra or swapped with their neighbour; `limit + 1` stands for anything beyond.

    Only the band that can still end within the limit is computed, so a call costs length times limit.
    """
    beyond = limit + 1
    if abs(len(one) - len(other)) > limit:
        return beyond
    before: list[int] = []
    above = [min(column, beyond) for column in range(len(other) + 1)]
    for row in range(1, len(one) + 1):
        line = [beyond] * (len(other) + 1)
        if row <= limit:
            line[0] = row
        for column in range(max(1, row - limit), min(len(other), row + limit) + 1):
            same = one[row - 1] == other[column - 1]
            cost = min(above[column] + 1, line[column - 1] + 1, above[column - 1] + (not same))
            swapped = row > 1 and column > 1 and one[row - 2 : row] == other[column - 2 : column][::-1]
            if swapped:
                cost = min(cost, before[column - 2] + 1)
            line[column] = min(cost, beyond)
        before, above = above, line
    return above[-1]


def nearly(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names close to a word (another case, a letter or two off), the nearest first."""
    if len(word) > MAX_COMPARED:
        return ()
    folded = word.casefold()
    found = []
    for name in names:
        distance = _slips(folded, name.casefold())
        if distance is not None:
            found.append((distance, name))
    return tuple(name for _, name in sorted(found, key=lambda pair: pair[0]))


def _slips(word: str, name: str) -> int | None:
    if word == name:
        return 0
    shorter = min(len(word), len(name))
    if shorter < 2:
        return None
    limit = 1 if shorter <= SHORT else 2
    distance = edit_distance(word, name, limit)
    return distance if distance <= limit else None


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name to suggest for an unknown word; None if it would be a guess."""
    if not word or len(word) > MAX_COMPARED:
        return None
    folded = word.casefold()
    limit = max(1, min(3, len(folded) // 3))
    best: tuple[int, str] | None = None
    for name in names:
        other = name.casefold()
        begun = len(folded) >= BEGUN and other.startswith(folded)
        distance = 1 if begun and other != folded else edit_distance(folded, other, limit)
        if distance <= limit and (best is None or distance < best[0]):
            best = (distance, name)
    return best[1] if best else None


def canonical_json(value: Any) -> str:  # noqa: ANN401 (JSON of any shape)
    """Serialize a value to the same text on every machine and in every database."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain)


def _plain(value: object) -> object:
    """Convert mappings, sets and other values that JSON doesn't know."""
    if hasattr(value, "items"):
        return dict(value.items())
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)


SHORT_ID = 8
"""Letters of an id that people type: 2.8 million million of them."""

_ALPHABET = string.ascii_lowercase + string.digits
_FAIR = 256 // len(_ALPHABET) * len(_ALPHABET)
"""The bytes below it mean each letter equally often."""


def random_id(letters: int = SHORT_ID) -> str:
    """Lowercase letters and digits; nobody can guess the next one. `secrets` would be a tenth of a quick command: it
    imports random and hashlib."""
    text = ""
    while len(text) < letters:
        text += "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in os.urandom(letters) if byte < _FAIR)
    return text[:letters]
