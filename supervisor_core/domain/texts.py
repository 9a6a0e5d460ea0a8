"""Text from elsewhere (a flag, a file name, an error) in a form that every database, file and terminal takes."""

from __future__ import annotations


def storable(text: str) -> str:
    """The same text, with what UTF-8 (a lone surrogate) or PostgreSQL (a NUL) does not take as its escape."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def one_line(text: str, most: int) -> str:
    """The same text as a line of at most so many characters: what does not print is escaped, what is over is cut."""
    # Cut first as well: a file of some megabytes must not become an escaped one of many.
    kept = text[: most + 1]
    line = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in kept)
    return line if len(line) <= most else f"{line[: most - 1]}…"
