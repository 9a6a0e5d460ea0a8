"""Text made safe for every database, file and terminal; near misses of words; canonical JSON; random ids. Pure."""

from __future__ import annotations

import json
import os
import re
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
    return "".join(letter if letter in "\n\t" or letter.isprintable() else escape(letter) for letter in text)


def one_line(text: str, max_length: int) -> str:
    """Fit the text into one line of at most so many characters: escape unprintable ones and cut the rest."""
    line = text[: max_length + 1]  # some megabytes must not become many before they are cut
    if not line.isprintable():
        line = "".join(letter if letter.isprintable() else escape(letter) for letter in line)
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


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


LONGEST_WORD = 80  # characters: no name here is longer, and hostile text is not worth the arithmetic


def close_names(query: str, names: Iterable[str], *, at_least: float = 0.6) -> tuple[str, ...]:
    """The names that a word is close to (another case, a letter or two off), the closest first."""
    if not query or len(query) > LONGEST_WORD:
        return ()
    from difflib import get_close_matches  # seldom needed

    by_key: dict[str, list[str]] = {}
    for name in names:
        by_key.setdefault(name.casefold(), []).append(name)
    # One wrong letter is half of two.
    close = get_close_matches(query.casefold(), by_key, n=8, cutoff=0.5 if len(query) == 2 else at_least)
    return tuple(name for key in close for name in by_key[key])


def nearest(query: str, names: Iterable[str]) -> str | None:
    """The name to suggest for an unknown word; None if it would be a guess."""
    names = list(names)
    starts = [name for name in names if len(query) >= 3 and name.casefold().startswith(query.casefold())]
    return next(iter([*starts, *close_names(query, names, at_least=0.66)]), None)


def canonical_json(value: Any) -> str:  # noqa: ANN401 (JSON of any shape)
    """Serialize a value to the same text on every machine and in every database."""

    def convert(value: object) -> object:
        if hasattr(value, "items"):
            return dict(value.items())
        return sorted(value) if isinstance(value, (set, frozenset)) else str(value)

    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=convert)


def random_id(letters: int = 8) -> str:
    """Lowercase letters and the digits 2 to 7; nobody can guess the next one. Eight give a million million ids."""
    from base64 import b32encode  # late, as most commands need no id

    return b32encode(os.urandom(letters)).decode().lower()[:letters]
