"""Variables: `${VAR}` in the values of a configuration, and the `.env` file that may define them.

On the path of `supervisor status`: imports nothing heavy.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_REFERENCE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}|(\{))")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class Substituted(str):
    """Text in which a variable was replaced. It may be a secret, so no message ever quotes it.

    `plain` is true where the document has no quotes around it: only then may it serve as a number.
    """

    __slots__ = ("plain",)
    plain: bool

    def __new__(cls, text: str, *, plain: bool) -> Self:
        value = super().__new__(cls, text)
        value.plain = plain
        return value


def substitute(text: str, environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text with its variables replaced once, and what is wrong with it, in words.

    What comes out of a variable is never looked at again: no variable can pull in another.
    """
    problems: list[str] = []

    def value(match: re.Match[str]) -> str:
        dollar, name, default, broken = match.groups()
        if dollar:
            return "$"
        if broken:
            problems.append("has a `${` that begins no variable; write ${NAME}, ${NAME:default}, or $${ for the text")
            return ""
        if name in environment:
            return environment[name]
        if default is None:
            problems.append(f"needs the variable {name}, which is not set; set it, or write ${{{name}:default}}")
            return ""
        return str(default)

    return _REFERENCE.sub(value, text), problems


def parse_env(text: str) -> tuple[dict[str, str], list[tuple[int, str]]]:
    """The variables of a `.env` file, and its faulty lines. A message never quotes a value."""
    found: dict[str, str] = {}
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, equals, rest = entry.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if not equals or not _NAME.fullmatch(name):
            problems.append((number, "is not of the form NAME=value"))
            continue
        value = _env_value(rest.strip())
        if value is None:
            problems.append((number, f"{name} has a quote that is never closed, or text after it"))
            continue
        found[name] = value
    return found, problems


def _env_value(text: str) -> str | None:
    """A value without its quotes and its comment; None where the quotes are wrong."""
    quote = text[:1]
    if quote not in ("'", '"') or not quote:
        if text.startswith("#"):
            return ""
        return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    pattern = r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"'
    match = re.fullmatch(pattern + r"\s*(?:#.*)?", text)
    if match is None:
        return None
    if quote == "'":
        return match[1]
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), match[1])
