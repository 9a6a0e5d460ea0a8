"""The syntax of systemd's unit files: settings with their lines, words with quotes and escapes, and time spans. Pure.

See systemd.syntax(7), systemd.time(7) and the section "Command lines" of systemd.service(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_ESCAPES |= {each: each for each in "\\\"'"}
_BY_NUMBER = re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLOSED = {"'": re.compile(r"'[^']*'\s*"), '"': re.compile(r'"(?:[^"\\]|\\.)*"\s*', re.DOTALL)}
_UNQUOTED = re.compile(r"(?:[^\\]|\\.)*", re.DOTALL)
"""A value that is complete: its quote is closed, or its last line isn't continued."""

HIGHEST_CHARACTER = 0x10FFFF

_MINUTE, _DAY = 60.0, 86_400.0
_SECONDS = {
    **dict.fromkeys(("us", "µs", "usec"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), _MINUTE),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 60 * _MINUTE),
    **dict.fromkeys(("d", "day", "days"), _DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * _DAY),
    **dict.fromkeys(("M", "month", "months"), 30.44 * _DAY),
    **dict.fromkeys(("y", "year", "years"), 365.25 * _DAY),
}
_SPAN = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(?![0-9]) *([A-Za-zµ]*)\s*")


class UnitSyntaxError(ValueError):
    """Text that systemd can't read either. The message completes a sentence that begins with the setting."""


@dataclass(frozen=True, slots=True)
class UnitSetting:
    section: str
    key: str
    value: str
    file: str
    line: int


def read_settings(text: str, file: str) -> Iterator[UnitSetting]:
    """The assignments in order, with continued lines joined; `UnitSyntaxError` for any other line."""
    section, start, held = "", 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if (not held and (not bare or bare[0] in "#;")) or (held and bare[:1] in ("#", ";")):
            continue
        start = start if held else number
        if line.rstrip("\n").endswith("\\"):
            held += line[:-1].lstrip() + " " if not held else line[:-1] + " "
            continue
        whole, held = (held + line).strip(), ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
            continue
        key, equals, value = whole.partition("=")
        if not equals or not key.strip():
            raise UnitSyntaxError(f"{file} line {start} must be a section, or a setting as Key=value")
        yield UnitSetting(section, key.strip(), value.strip(), file, start)


def split_words(text: str) -> list[str]:
    """The words of a value, without their quotes, and with their escapes replaced."""
    words: list[str] = []
    word: str | None = None
    quote, at = "", 0
    while at < len(text):
        sign = text[at]
        at += 1
        if sign == "\\" and at < len(text):
            escaped, at = _escaped(text, at)
            word = (word or "") + escaped
        elif quote:
            quote, word = ("", word or "") if sign == quote else (quote, (word or "") + sign)
        elif sign in "\"'":
            quote, word = sign, word or ""
        elif sign.isspace():
            words += [word] if word is not None else []
            word = None
        else:
            word = (word or "") + sign
    if quote:
        raise UnitSyntaxError(f"has a {quote} that isn't closed")
    return [*words, word] if word is not None else words


def _escaped(text: str, at: int) -> tuple[str, int]:
    """The character of the escape at this place, and the place behind it; an unknown escape is kept."""
    if text[at] in _ESCAPES:
        return _ESCAPES[text[at]], at + 1
    if number := _BY_NUMBER.match(text, at):
        hexadecimal = number[1] or number[3] or number[4]
        code = int(hexadecimal, 16) if hexadecimal else int(number[2], 8)
        if 0 < code <= HIGHEST_CHARACTER:
            return chr(code), number.end()
    return "\\", at


def read_variables(text: str) -> dict[str, str]:
    """The variables of an environment file, as EnvironmentFile= reads it: see systemd.exec(5)."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if not equals or name[:1] in ("#", ";") or not _NAME.fullmatch(name.strip()):
            continue
        value = value.strip()
        quote = value[:1] if value[:1] in ("'", '"') else ""
        closed = _CLOSED.get(quote, _UNQUOTED)
        while not closed.fullmatch(value) and (more := next(lines, None)) is not None:
            value += f"\n{more}"
        value = value.removesuffix("\n").strip()
        if quote == "'":
            value = value.strip("'")
        elif quote:
            value = re.sub(r'\\([\\"`$])', r"\1", value[1:].removesuffix('"').replace("\\\n", ""))
        else:
            value = re.sub(r"\\(.)", r"\1", value.replace("\\\n", ""))
        found[name.strip()] = value
    return found


def quoted_word(text: str, *, program: bool = False) -> str:
    """Literal text as a word of a command line: quotes, variables and specifiers have no meaning in it.

    In the first word, the `program`, a dollar sign has none anyway.
    """
    text = text.replace("%", "%%")
    text = text if program else text.replace("$", "$$")
    if _PLAIN.fullmatch(text.replace("%", "").replace("$", "")):
        return text
    return '"' + re.sub(r'[\\"]', r"\\\g<0>", text).replace("\n", "\\n").replace("\t", "\\t") + '"'


def seconds_in(span: str) -> float | None:
    """`37min 20s` or `90` in seconds, `infinity` as such; None for what is no time span."""
    span = span.strip()
    if span == "infinity":
        return float("inf")
    seconds, at = 0.0, 0
    while part := _SPAN.match(span, at):
        if part[2] not in _SECONDS:
            return None
        seconds += float(part[1]) * _SECONDS[part[2]]
        at = part.end()
    return seconds if at == len(span) and span else None
