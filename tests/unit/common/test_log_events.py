"""The catalog of log events against the calls that log them."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from supervisor_core.common.log_events import ABOUT, NO_EVENT, LogEvent, unknown_pattern

ROOT = Path(__file__).parents[3]
CATALOG = ROOT / "supervisor_core/common/log_events.py"

WORDS = ("LogEvent", "extra", "log_approval")

OF_A_LINE = {"timestamp", "level", "event", "message", "logger", *ABOUT}


@cache
def trees() -> dict[Path, ast.Module]:
    """The modules that log with fields, or call what does: few have these words, and to parse all takes seconds."""
    paths = [path for folder in ("supervisor_core", "bot") for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    return {path: ast.parse(text) for path, text in texts.items() if any(word in text for word in WORDS)}


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(trees()[path])


def event_in(node: ast.expr) -> LogEvent | None:
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "LogEvent"
    return LogEvent[node.attr] if named and isinstance(node, ast.Attribute) else None


def extras() -> list[tuple[Path, ast.Call, LogEvent | None]]:
    return [
        (path, node, event_in(node.func.value))
        for path in trees()
        if path != CATALOG
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "extra"
    ]


def keywords(call: ast.Call) -> set[str]:
    return {each.arg for each in call.keywords if each.arg is not None} - set(ABOUT)


def test_every_event_is_logged() -> None:
    used = {event for path in trees() if path != CATALOG for node in nodes(path) if (event := event_of(node))}
    assert used == set(LogEvent)


def event_of(node: ast.AST) -> LogEvent | None:
    return event_in(node) if isinstance(node, ast.Attribute) else None


def test_a_call_gives_the_fields_of_its_event() -> None:
    assert len(extras()) > 40
    for path, call, event in extras():
        place = f"{path.name}:{call.lineno}"
        if event is not None:
            assert keywords(call) == set(event.fields), place
        elif path.name == "monitor.py":
            assert all(keywords(call) == set(each.fields) for each in LogEvent if each.event.startswith("alert."))
        else:
            assert place.startswith("service.py:"), "log_approval, of which the next test is"


def test_a_call_about_an_approval_gives_the_fields_of_its_event() -> None:
    ended = {LogEvent.APPROVAL_CANCELLED, LogEvent.APPROVAL_EXPIRED, LogEvent.APPROVAL_OUTDATED}
    seen = 0
    for path in trees():
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "log_approval":
                event = event_in(node.args[0])
                seen += 1
                for each in ended if event is None else {event}:
                    assert {"approval_id", "command", *keywords(node)} == set(each.fields), node.lineno
    assert seen > 5


def events_below(node: ast.AST) -> list[LogEvent]:
    return [event for each in ast.walk(node) if (event := event_of(each))]


def logged(function: ast.AST) -> Iterator[tuple[ast.Call, str, list[LogEvent]]]:
    """The logging calls of a function with level and events: from `extra=`, or from what its name was last assigned."""
    assigned = sorted(
        (node.lineno, node.targets[0].id, events_below(node.value))
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    )
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            for given in (each.value for each in node.keywords if each.arg == "extra"):
                found = events_below(given)
                if isinstance(given, ast.Name):
                    found = [each for line, name, each in assigned if name == given.id and line < node.lineno][-1]
                yield node, node.func.attr.upper(), found


def test_a_call_has_the_level_of_its_event() -> None:
    seen = 0
    for path in trees():
        for function in nodes(path):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for call, level, events in logged(function):
                    for event in events if level != "LOG" else ():
                        seen += 1
                        assert level == event.level, f"{path.name}:{call.lineno}"
    assert seen > 40


@pytest.mark.parametrize("event", LogEvent, ids=lambda event: event.event)
def test_an_event_is_well_named(event: LogEvent) -> None:
    assert re.fullmatch(r"[a-z_]+\.[a-z_]+", event.event)
    assert event.name == event.event.upper().replace(".", "_")
    assert event.level in logging.getLevelNamesMapping()
    assert event.description.endswith(".")
    assert not set(event.fields) & OF_A_LINE, "they would take the place of a line's own"


def test_names_are_unique_and_sorted() -> None:
    names = [each.name for each in LogEvent]
    assert names == sorted(names)
    assert len({each.event for each in LogEvent}) == len(names)


def test_extra_keeps_what_a_line_is_about_apart() -> None:
    extra = LogEvent.WORKER_STARTED.extra(worker_id="North", pid=4711)
    assert extra == {"event": "worker.started", "fields": {"pid": 4711}, "worker_id": "North"}


@pytest.mark.parametrize(
    ("pattern", "unknown"),
    [("worker.exited", False), ("worker.*", False), (NO_EVENT, False), ("worker.exploded", True), ("Worker.*", True)],
)
def test_a_pattern_without_an_event_is_known_as_such(pattern: str, unknown: bool) -> None:
    assert unknown_pattern(pattern) is unknown
