"""Shapes: objects with known fields, and the choice between shapes by their `type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from slack_playground.blockkit.kinds import Boolean, Kind, name_of
from slack_playground.blockkit.problems import EVERYWHERE, Report

Rule = Callable[[Mapping[str, object], str, Report], None]
"""A rule between several fields of one object."""


@dataclass(frozen=True)
class Needed:
    """Marks a field that must be there."""

    kind: Kind


@dataclass(frozen=True)
class Shape:
    """One kind of object: its name, its fields, the rules between them, and where it may stand."""

    name: str
    fields: Mapping[str, Kind]
    needed: frozenset[str]
    tag: str | None = None  # the value of its `type`; None where it has none
    tag_optional: bool = False
    rules: tuple[Rule, ...] = ()
    places: frozenset[str] = EVERYWHERE
    block: bool = False
    extra: frozenset[str] = field(default_factory=frozenset)

    def check(self, value: object, path: str, report: Report) -> None:
        if not isinstance(value, Mapping):
            report.add(path, f"expected {self.name} (an object), not {name_of(value)}")
            return
        if self.tag is not None:
            self._check_tag(value, path, report)
        if report.surface not in self.places:
            report.add(path, f"{self.name} is allowed in {_and(sorted(self.places))}, not in a {report.surface}")
        if self.block:
            with report.block():
                self._check_fields(value, path, report)
        else:
            self._check_fields(value, path, report)

    def _check_tag(self, value: Mapping[str, object], path: str, report: Report) -> None:
        tag = value.get("type")
        if tag != self.tag and not (self.tag_optional and "type" not in value):
            report.add(join(path, "type"), f"the type of {self.name} must be {self.tag!r}")

    def _check_fields(self, value: Mapping[str, object], path: str, report: Report) -> None:
        for key in value:
            if key not in self.fields and not (key == "type" and self.tag is not None):
                report.add(join(path, str(key)), f"{self.name} has no field {str(key)[:40]!r}{self._hint(key)}")
        for key in sorted(self.needed):
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
        if "focus_on_load" in self.fields and value.get("focus_on_load") is True:
            report.focused.append(join(path, "focus_on_load"))

    def _hint(self, key: object) -> str:
        near = get_close_matches(str(key)[:60], self.fields, n=1)
        return f"; did you mean {near[0]!r}?" if near else ""


def shape(
    name: str,
    fields: Mapping[str, Kind | Needed],
    *,
    tag: str | None = None,
    tag_optional: bool = False,
    rules: tuple[Rule, ...] = (),
    places: frozenset[str] = EVERYWHERE,
    block: bool = False,
) -> Shape:
    """A shape out of its fields, of which those that must be there are marked as `Needed`."""
    kinds = {key: kind.kind if isinstance(kind, Needed) else kind for key, kind in fields.items()}
    needed = frozenset(key for key, kind in fields.items() if isinstance(kind, Needed))
    return Shape(name, kinds, needed, tag, tag_optional, rules, places, block)


@dataclass(frozen=True)
class OneOf:
    """One of several shapes, told apart by `type`."""

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
    """A choice between shapes that all have a tag."""
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


def in_order(low: str, high: str) -> Rule:
    """A rule: one number must not be greater than the other; either may be text, as in number inputs."""

    def rule(value: Mapping[str, object], path: str, report: Report) -> None:
        least, most = _number(value.get(low)), _number(value.get(high))
        if least is not None and most is not None and least > most:
            report.add(join(path, low), f"{low} must not be greater than {high}")

    return rule


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _and(words: list[str]) -> str:
    return " and ".join(f"a {word}" for word in words)


FLAG = Boolean()
