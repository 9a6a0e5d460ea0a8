"""The syntax of systemd's unit files: settings with their lines, words with quotes and escapes, and time spans. Pure.

See systemd.syntax(7), systemd.time(7) and the section "Command lines" of systemd.service(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtvs\\\"']))")
_PIECE = re.compile(r"""(\s+)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|((?:[^\s"'\\]|\\\S|\\(?=\s|$))+)""", re.DOTALL)
"""A part of a value: space, quoted text in either quotes, or other text."""

_VARIABLE = re.compile(
    r"""^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=[ \t]*(?:'([^']*)'?|"((?:[^"\\]|\\.)*)"?|((?:[^\\\n]|\\.)*))""",
    re.MULTILINE | re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
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


class UnitSetting(NamedTuple):
    key: str
    value: str
    position: str
    """The file and the line."""


def read_settings(text: str, file: str) -> Iterator[UnitSetting]:
    """The assignments in order, with continued lines joined; `UnitSyntaxError` for any other line."""
    start, continued = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare[:1] in ("#", ";") or not (bare or continued):
            continue
        start = start if continued else number
        if line.endswith("\\"):
            continued += (line if continued else line.lstrip())[:-1] + " "
            continue
        whole, continued = (continued + line).strip(), ""
        key, equals, value = map(str.strip, whole.partition("="))
        if whole.startswith("[") and whole.endswith("]"):
            continue
        if not equals or not key:
            raise UnitSyntaxError(f"{file} line {start} must be a section, or a setting as Key=value")
        yield UnitSetting(key, value, f"{file} line {start}")


def split_words(text: str) -> list[str]:
    """The words of a value, without their quotes, and with their escapes replaced."""
    words: list[str] = []
    at, is_new_word = 0, True
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise UnitSyntaxError(f"has a {text[at]} that isn't closed")
        at = piece.end()
        if piece[1] is None:
            words += [""] if is_new_word else []
            words[-1] += _ESCAPE.sub(_unescape, piece[2] or piece[3] or piece[4] or "")
        is_new_word = piece[1] is not None
    return words


def _unescape(match: re.Match[str]) -> str:
    if match[5]:
        return _ESCAPES.get(match[5], match[5])
    code = int(match[2], 8) if match[2] else int(match[1] or match[3] or match[4], 16)
    return chr(code) if 0 < code <= HIGHEST_CHARACTER else match[0]


def read_variables(text: str) -> dict[str, str]:
    """The variables of an environment file, as EnvironmentFile= reads it: see systemd.exec(5)."""
    variables = {}
    for name, literal, quoted, plain in _VARIABLE.findall(text):
        unescaped = re.sub(r'\\([\\"`$])', r"\1", quoted.replace("\\\n", ""))
        variables[name] = literal or unescaped or re.sub(r"\\(.)", r"\1", plain.replace("\\\n", "")).strip()
    return variables


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
