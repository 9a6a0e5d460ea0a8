"""The kinds of value that a field may have, each of which can check one and say what it expected."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slack_playground.blockkit.problems import Report


class Kind(Protocol):
    """Anything that can check a value at a place."""

    def check(self, value: object, path: str, report: Report) -> None:
        """Note in the report what is wrong with the value."""


def name_of(value: object) -> str:
    """The kind of a JSON value, in a word for people."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return type(value).__name__


def is_list(value: object) -> bool:
    """True for a JSON list; a text is a sequence too, but no list."""
    return isinstance(value, (list, tuple))


@dataclass(frozen=True)
class String:
    """Text between two lengths, counted in code points, perhaps in a certain form."""

    most: int | None = None
    least: int = 0
    pattern: str | None = None
    form: str = ""  # the pattern in words
    counted: bool = False

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, str):
            report.add(path, f"expected text, not {name_of(value)}")
            return
        if self.counted:
            report.count(value)
        if len(value) < self.least:
            report.add(path, "must not be empty" if self.least == 1 else f"must have at least {self.least} characters")
        elif self.most is not None and len(value) > self.most:
            report.add(path, f"at most {self.most} characters, not {len(value)}")
        elif self.pattern is not None and not re.fullmatch(self.pattern, value):
            report.add(path, f"expected {self.form}, not {value[:40]!r}")


IDENTIFIER = String(most=255, least=1)


def url(most: int = 3000, *, web: bool = True) -> String:
    """An address: of the web (http or https), or of any scheme."""
    scheme = r"(?i:https?)://" if web else r"[A-Za-z][A-Za-z0-9+.-]*:"
    words = "a URL that starts with https:// or http://" if web else "a URL with a scheme, such as https://"
    return String(most=most, least=1, pattern=scheme + r"[^\s]+", form=words)


@dataclass(frozen=True)
class Boolean:
    """True or false, and nothing that is merely like it."""

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, bool):
            report.add(path, f"expected true or false, not {name_of(value)}")


@dataclass(frozen=True)
class Number:
    """A number in a range; whole unless said otherwise."""

    least: float | None = None
    most: float | None = None
    whole: bool = True
    above: float | None = None

    def check(self, value: object, path: str, report: Report) -> None:
        kind = "a whole number" if self.whole else "a number"
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self._fits(value):
            report.add(path, f"expected {kind}, not {name_of(value)}")
        elif self.least is not None and value < self.least:
            report.add(path, f"expected {kind} of at least {self.least:g}, not {value}")
        elif self.most is not None and value > self.most:
            report.add(path, f"expected {kind} of at most {self.most:g}, not {value}")
        elif self.above is not None and value <= self.above:
            report.add(path, f"expected {kind} above {self.above:g}, not {value}")

    def _fits(self, value: float) -> bool:
        return isinstance(value, int) if self.whole else math.isfinite(value)


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, str) or value not in self.words:
            shown = repr(value[:40]) if isinstance(value, str) else name_of(value)
            report.add(path, f"expected one of {', '.join(self.words)}, not {shown}")


def choice(*words: str) -> Choice:
    """One of these words."""
    return Choice(words)


@dataclass(frozen=True)
class ListOf:
    """A list of things of one kind, with bounds on how many."""

    item: Kind
    least: int = 0
    most: int | None = None
    nulls: bool = False

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, (list, tuple)):
            report.add(path, f"expected a list, not {name_of(value)}")
            return
        self.check_length(value, path, report)
        for index, item in enumerate(value):
            if item is not None or not self.nulls:
                self.item.check(item, f"{path}[{index}]", report)

    def check_length(self, value: Sequence[object], path: str, report: Report) -> None:
        """The bounds alone."""
        if len(value) < self.least:
            report.add(path, f"at least {self.least} items, not {len(value)}")
        elif self.most is not None and len(value) > self.most:
            report.add(path, f"at most {self.most} items, not {len(value)}")


@dataclass(frozen=True)
class AnyObject:
    """An object of which nothing more is known."""

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, Mapping):
            report.add(path, f"expected an object, not {name_of(value)}")


@dataclass(frozen=True)
class Uncounted:
    """A kind whose texts have a total of their own."""

    kind: Kind

    def check(self, value: object, path: str, report: Report) -> None:
        with report.uncounted():
            self.kind.check(value, path, report)
