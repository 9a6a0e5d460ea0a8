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
MOST_CLOSE = 8


def close_names(word: str, names: Iterable[str], *, at_least: float = 0.6) -> tuple[str, ...]:
    """The names that a word is close to (another case, a letter or two off), the closest first."""
    if not word or len(word) > MAX_COMPARED:
        return ()
    from difflib import get_close_matches  # seldom needed

    known: dict[str, list[str]] = {}
    for name in names:
        known.setdefault(name.casefold(), []).append(name)
    # One wrong letter is half of two.
    close = get_close_matches(word.casefold(), known, n=MOST_CLOSE, cutoff=0.5 if len(word) == 2 else at_least)
    return tuple(name for folded in close for name in known[folded])


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name to suggest for an unknown word; None if it would be a guess."""
    known = list(names)
    begun = [name for name in known if len(word) >= BEGUN and name.casefold().startswith(word.casefold())]
    return next(iter([*begun, *close_names(word, known, at_least=0.66)]), None)


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
