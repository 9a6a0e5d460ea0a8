"""The kinds of value that a field may have, each of which can check one and say what it expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from slack_playground.blockkit.problems import EVERYWHERE, Report


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
            report.text += len(value)
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
    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, bool):
            report.add(path, f"expected true or false, not {name_of(value)}")


FLAG = Boolean()


@dataclass(frozen=True)
class Number:
    """A number in a range; whole unless said otherwise."""

    least: float | None = None
    most: float | None = None
    whole: bool = True

    def check(self, value: object, path: str, report: Report) -> None:
        kind = "a whole number" if self.whole else "a number"
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self._fits(value):
            report.add(path, f"expected {kind}, not {name_of(value)}")
        elif self.least is not None and value < self.least:
            report.add(path, f"expected {kind} of at least {self.least:g}, not {value}")
        elif self.most is not None and value > self.most:
            report.add(path, f"expected {kind} of at most {self.most:g}, not {value}")

    def _fits(self, value: float) -> bool:
        return isinstance(value, int) if self.whole else math.isfinite(value)


class Choice:
    def __init__(self, *words: str) -> None:
        self.words = words

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, str) or value not in self.words:
            shown = repr(value[:40]) if isinstance(value, str) else name_of(value)
            report.add(path, f"expected one of {', '.join(self.words)}, not {shown}")


@dataclass(frozen=True)
class ListOf:
    """A list of things of one kind, with bounds on how many."""

    item: Kind
    least: int = 0
    most: int | None = None

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, (list, tuple)):
            report.add(path, f"expected a list, not {name_of(value)}")
            return
        if len(value) < self.least:
            report.add(path, f"at least {self.least} items, not {len(value)}")
        elif self.most is not None and len(value) > self.most:
            report.add(path, f"at most {self.most} items, not {len(value)}")
        for index, item in enumerate(value):
            self.item.check(item, f"{path}[{index}]", report)


Rule = Callable[[Mapping[str, object], str, Report], None]
"""A rule between several fields of one object."""


@dataclass(frozen=True)
class Needed:
    """Marks a field that must be there."""

    kind: Kind


class Shape:
    """One kind of object: its name, its fields, the rules between them, and where it may stand."""

    def __init__(
        self,
        name: str,
        fields: Mapping[str, Kind | Needed],
        *,
        tag: str | None = None,  # the value of its `type`; None where it has none
        rules: tuple[Rule, ...] = (),
        places: frozenset[str] = EVERYWHERE,
        block: bool = False,
    ) -> None:
        self.name, self.tag, self.rules, self.places, self.block = name, tag, rules, places, block
        self.fields = {key: kind.kind if isinstance(kind, Needed) else kind for key, kind in fields.items()}
        self.needed = sorted(key for key, kind in fields.items() if isinstance(kind, Needed))

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, Mapping):
            report.add(path, f"expected {self.name} (an object), not {name_of(value)}")
            return
        if self.tag is not None and value.get("type") != self.tag:
            report.add(join(path, "type"), f"the type of {self.name} must be {self.tag!r}")
        if report.surface not in self.places:
            report.add(path, f"{self.name} is allowed in {_and(sorted(self.places))}, not in a {report.surface}")
        if self.block:
            with report.block():
                self._check_fields(value, path, report)
        else:
            self._check_fields(value, path, report)

    def _check_fields(self, value: Mapping[str, object], path: str, report: Report) -> None:
        for key in value:
            if key not in self.fields and not (key == "type" and self.tag is not None):
                report.add(join(path, str(key)), f"{self.name} has no field {str(key)[:40]!r}{self._hint(key)}")
        for key in self.needed:
            if key not in value:
                report.add(join(path, key), f"{self.name} needs a field {key!r}")
        for key, kind in self.fields.items():
            if key in value:
                kind.check(value[key], join(path, key), report)
        self._claim(value, path, report)
        for rule in self.rules:
            rule(value, path, report)

    def _claim(self, value: Mapping[str, object], path: str, report: Report) -> None:
        block_id, action_id = value.get("block_id"), value.get("action_id")
        if self.block and isinstance(block_id, str):
            report.claim_block(block_id, join(path, "block_id"))
        if "action_id" in self.fields and isinstance(action_id, str):
            report.claim_action(action_id, join(path, "action_id"))

    def _hint(self, key: object) -> str:
        near = get_close_matches(str(key)[:60], self.fields, n=1)
        return f"; did you mean {near[0]!r}?" if near else ""


@dataclass(frozen=True)
class OneOf:
    what: str  # "a block", "an element of an actions block"
    shapes: Mapping[str, Shape]

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, Mapping):
            report.add(path, f"expected {self.what} (an object), not {name_of(value)}")
            return
        tag = value.get("type")
        found = self.shapes.get(tag) if isinstance(tag, str) else None
        if found is None:
            report.add(join(path, "type"), self._unknown(tag))
            return
        found.check(value, path, report)

    def _unknown(self, tag: object) -> str:
        known = sorted(self.shapes)
        near = get_close_matches(tag[:60], known, n=1) if isinstance(tag, str) else []
        shown = repr(tag[:40]) if isinstance(tag, str) else ("missing" if tag is None else name_of(tag))
        if near:
            return f"{self.what} can't have the type {shown}; did you mean {near[0]!r}?"
        return f"{self.what} must have one of the types {', '.join(known)}, not {shown}"


def one_of(what: str, *shapes: Shape) -> OneOf:
    return OneOf(what, {each.tag: each for each in shapes if each.tag is not None})


def join(path: str, key: str) -> str:
    """The place of a field of the object at a place."""
    return f"{path}.{key}" if path else key


def at_least_one(*keys: str) -> Rule:
    """A rule: one of these fields must be there."""

    def rule(value: Mapping[str, object], path: str, report: Report) -> None:
        if not any(key in value for key in keys):
            report.add(path, f"one of {', '.join(keys)} is required")

    return rule


def not_together(first: str, second: str) -> Rule:
    """A rule: these two fields exclude each other."""

    def rule(value: Mapping[str, object], path: str, report: Report) -> None:
        if first in value and second in value:
            report.add(join(path, second), f"{first} and {second} can't be used together")

    return rule


def _and(words: list[str]) -> str:
    return " and ".join(f"a {word}" for word in words)
