"""Object literals of JavaScript and JSON: read as values, never executed. Pure.

A file has one value: after `module.exports =` or `export default`, or alone. It consists of objects, arrays, strings,
numbers, `true`, `false`, `null`, `undefined` and `__dirname`; `+` joins strings. Comments and trailing commas are fine.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

DEEPEST = 50
LONGEST_NUMBER = 40
LONGEST_NAME = 60
"""Characters of an expression that a message repeats."""

_BLANK = re.compile(r"(?:\s+|\ufeff|//[^\n\r]*|/\*(?:[^*]|\*(?!/))*\*/)+")
_BEGIN = re.compile(r"(?:module\.)?exports\s*=|export\s+default\b")
_STRICT = re.compile(r"(['\"])use strict\1\s*;?")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_NUMBER = re.compile(
    r"-?(?:0[xX][0-9a-fA-F]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_$])"
)
_TEXT = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\(?s:.))*{quote}") for quote in "'\""} | {
    "`": re.compile(r"(?:[^`\\]|\\(?s:.))*`")
}
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|(?s:.)))")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}
_WORDS = {"true": True, "false": False, "null": None, "undefined": None}
HIGHEST_CHARACTER = 0x10FFFF


class NotALiteralError(ValueError):
    """The file has something other than literal values; the text says what, and `line` says where."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True, slots=True)
class Literal:
    """A value, and the lines of its parts by keys such as `apps[0].name`."""

    value: Any
    lines: dict[str, int] = field(default_factory=dict)


def read_literal(text: str, folder: str) -> Literal:
    """The value of a file in a folder, which `__dirname` means; `NotALiteralError` for anything else."""
    return _Reader(text, folder).read()


class _Reader:
    def __init__(self, text: str, folder: str) -> None:
        self._text = text
        self._folder = folder
        self._at = 0
        self._lines: dict[str, int] = {}
        self._breaks = [found.start() for found in re.finditer("\n", text)]

    def read(self) -> Literal:
        self._skip(_STRICT)
        self._skip(_BEGIN)
        value = self._value("", 0)
        self._take(";")
        if self._peek():
            self._refuse("nothing may follow the value")
        return Literal(value, self._lines)

    def _value(self, key: str, depth: int) -> Any:  # noqa: ANN401 (a value of JavaScript)
        if depth > DEEPEST:
            self._refuse(f"it nests more than {DEEPEST} levels deep")
        value = self._single(key, depth)
        while isinstance(value, str) and self._take("+"):
            more = self._single(key, depth)
            if not isinstance(more, str):
                self._refuse("only strings can be joined by +")
            value += more
        if (sign := self._peek()) and sign not in ",]};":
            self._refuse(f"{self._shown()} isn't part of a literal value")
        return value

    def _single(self, key: str, depth: int) -> Any:  # noqa: ANN401
        sign = self._peek()
        if sign and sign in "{[":
            self._at += 1
            parts = self._members(key, depth) if sign == "{" else self._items(key, depth)
            return dict(parts) if sign == "{" else [value for _, value in parts]
        if sign and sign in _TEXT:
            return self._string()
        if number := _NUMBER.match(self._text, self._at):
            return self._number(number)
        name = _NAME.match(self._text, self._at)
        if name and name[0] in _WORDS:
            self._at = name.end()
            return _WORDS[name[0]]
        if name and name[0] == "__dirname":
            self._at = name.end()
            return self._folder
        return self._refuse(f"{self._shown()} isn't a literal value" if sign else "a value is missing")

    def _members(self, key: str, depth: int) -> Iterator[tuple[str, Any]]:
        while not self._take("}"):
            line = self._line()
            name = self._key()
            here = f"{key}.{name}" if key else name
            self._lines[here] = line
            if not self._take(":"):
                self._refuse(f"after the key {name}, a colon and a value are missing")
            yield name, self._value(here, depth + 1)
            self._next("}")

    def _items(self, key: str, depth: int) -> Iterator[tuple[str, Any]]:
        place = 0
        while not self._take("]"):
            here = f"{key}[{place}]"
            self._lines[here] = self._line()
            yield here, self._value(here, depth + 1)
            self._next("]")
            place += 1

    def _next(self, end: str) -> None:
        if not self._take(",") and self._peek() != end:
            self._refuse(f"a comma or {end} is missing")

    def _key(self) -> str:
        sign = self._peek()
        if sign and sign in "'\"":
            return self._string()
        name = _NAME.match(self._text, self._at) or re.compile(r"[0-9]{1,15}").match(self._text, self._at)
        if name is None:
            self._refuse(f"{self._shown()} isn't a key" if sign else "a brace isn't closed")
        self._at = name.end()
        return name[0]

    def _string(self) -> str:
        quote = self._text[self._at]
        found = _TEXT[quote].match(self._text, self._at + 1)
        if found is None:
            self._refuse("a quote isn't closed")
        inside = found[0][:-1]
        if quote == "`" and re.search(r"(?<!\\)\$\{", inside):
            self._refuse("a template with ${…} isn't a literal value")
        self._at = found.end()
        # Two escapes may be the halves of one character. A half alone is none.
        return _ESCAPE.sub(_unescaped, inside).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _number(self, found: re.Match[str]) -> float:
        digits = found[0].replace("_", "")
        if len(digits) > LONGEST_NUMBER:
            self._refuse("a number is too long")
        self._at = found.end()
        if digits.lower().removeprefix("-").startswith("0x"):
            return int(digits, 16)
        value = float(digits)
        if abs(value) == float("inf"):
            self._refuse("a number is too large")
        return int(value) if value.is_integer() else value

    # --- where we are

    def _peek(self) -> str:
        """The next character after blanks and comments; empty at the end."""
        if blank := _BLANK.match(self._text, self._at):
            self._at = blank.end()
        return self._text[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        found = self._peek() == sign
        self._at += found
        return found

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self._peek()
        if found := pattern.match(self._text, self._at):
            self._at = found.end()

    def _shown(self) -> str:
        found = re.compile(r"[^\s,;{}\[\]]+|.", re.DOTALL).match(self._text, self._at)
        return ascii(found[0][:LONGEST_NAME])[1:-1] if found else "the end"

    def _line(self) -> int:
        self._peek()
        return bisect_left(self._breaks, self._at) + 1

    def _refuse(self, text: str) -> NoReturn:
        raise NotALiteralError(text, self._line())


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        return _ESCAPED.get(found[4], found[4])
    number = int(code, 16)
    return chr(number) if number <= HIGHEST_CHARACTER else "\ufffd"
