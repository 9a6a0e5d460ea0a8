"""Text from elsewhere (a flag, a file name, an error) in a form that every database, file and terminal takes."""

from __future__ import annotations

import re


def storable(text: str) -> str:
    """The same text, with what UTF-8 (a lone surrogate) or PostgreSQL (a NUL) does not take as its escape."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def is_plain(text: str) -> bool:
    """Whether the text is valid Unicode: bytes that weren't UTF-8 are lone surrogates in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """The same text, storable, and with nothing in its lines that a terminal would obey instead of showing it."""
    return "".join(each if each in "\n\t" or each.isprintable() else escaped(each) for each in text)


def one_line(text: str, most: int) -> str:
    """The same text as a line of at most so many characters: what does not print is escaped, what is over is cut."""
    # Cut first as well: a file of some megabytes must not become an escaped one of many.
    kept = text[: most + 1]
    line = "".join(each if each.isprintable() else escaped(each) for each in kept)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def escaped(character: str) -> str:
    """A character as Python writes it where it does not print."""
    return character.encode("unicode_escape").decode()


def sentence(text: str) -> str:
    """The same text with a stop at its end, so that another sentence may follow."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", ":", "…")) else f"{text}."


def capitalised(text: str, *names: str) -> str:
    """The same text with a capital letter at its start. A name at the start keeps its case."""
    if text.startswith(names) and re.split(r"[\s:,;']", text, maxsplit=1)[0] in names:
        return text
    return f"{text[:1].upper()}{text[1:]}"


def unfolded(text: str) -> str:
    """The same text in one line, each line break and run of spaces as one space."""
    return " ".join(text.split())


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
