"""A YAML document as plain data with the line of every key: no tags, no duplicate keys, no bombs.

It is built from the parser's events, with a stack of our own: no document can exhaust memory or the stack.
Only what is a number or a truth value in every reader's eyes becomes one: `0640`, `22:00` and `2026-01-01`
stay text. On the path of `supervisor status`: imports nothing heavy.
"""

from __future__ import annotations

import re

from supervisor_core.config.raw import Substituted, substitute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

Path = tuple[str | int, ...]
Problem = tuple[int, Path, str]

MAX_DEPTH = 32  # the deepest setting there is has six levels
MERGE = "<<"
LONGEST_WORD = 5  # letters, of false
MAX_NODES = 50_000  # values, with every alias counted as what it stands for

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,2})?")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None}
_WORDS |= {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_TEXT_TAGS = (None, "!", "tag:yaml.org,2002:str")


class WrittenInt(int):
    """A whole number that remembers how it was written, for settings that are text after all."""

    text = ""


class WrittenFloat(float):
    """A fractional number that keeps its notation: `1.10` may be a version."""

    text = ""


class DocumentError(Exception):
    """The rest of the document can't be read. Without a path, the reason is a sentence of its own."""

    def __init__(self, line: int, path: Path | None, reason: str) -> None:
        super().__init__(line, path, reason)
        self.line = line
        self.path = path
        self.reason = reason


class Document:
    """The data, the line of each path, and the problems so far."""

    __slots__ = ("data", "lines", "problems")

    def __init__(self) -> None:
        self.data: Any = None
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []


class _Frame:
    """One mapping or list that is still open."""

    __slots__ = ("anchor", "awaits_key", "before", "container", "key", "merged", "path")

    def __init__(self, container: dict[str, Any] | list[Any], path: Path, anchor: str | None, before: int) -> None:
        self.container = container
        self.path = path
        self.anchor = anchor
        self.before = before
        self.awaits_key = isinstance(container, dict)
        self.key: str | None = None
        self.merged: list[dict[str, Any]] = []


def build(events: Iterable[Any], environment: Mapping[str, str]) -> Document:
    """Build the document from these events; raise `DocumentError` if the rest can't be read."""
    builder = _Builder(environment)
    for event in events:
        builder.take(event)
    return builder.document


def scalar(text: str) -> Any:  # noqa: ANN401 (what a scalar is depends on its text)
    """The value of an unquoted scalar."""
    if len(text) <= LONGEST_WORD:
        word = text.lower()
        if word in _WORDS and text in (word, word.upper(), word.capitalize()):
            return _WORDS[word]
    number: WrittenInt | WrittenFloat
    if _INT.fullmatch(text):
        number = WrittenInt(text.replace("_", ""))
    elif _FLOAT.fullmatch(text):
        number = WrittenFloat(text)
    else:
        return text
    number.text = text
    return number


class _Builder:
    """The state between one event and the next."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.document = Document()
        self._environment = environment
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open: set[str] = set()
        self._nodes = 0
        self._documents = 0

    def take(self, event: Any) -> None:  # noqa: ANN401 (events come from C, without types)
        """One event; its class is its meaning."""
        handler = self._HANDLERS.get(type(event).__name__)
        if handler is not None:
            handler(self, event)

    def _document(self, event: Any) -> None:  # noqa: ANN401
        self._documents += 1
        if self._documents > 1:
            raise DocumentError(_line(event), None, "a second YAML document starts here; only one is allowed")

    def _scalar(self, event: Any) -> None:  # noqa: ANN401
        line = _line(event)
        if event.tag not in _TEXT_TAGS:
            raise DocumentError(line, self._path(), "has a tag (`!…`); tags aren't allowed")
        plain = event.implicit[0]
        if self._stack and self._stack[-1].awaits_key:
            self._key(event.value, line)
            return
        self._count(1, line)
        path = self._path()
        self.document.lines.setdefault(path, line)
        value = scalar(event.value) if plain else event.value
        if "$" in event.value:
            text, problems = substitute(event.value, self._environment)
            self.document.problems.extend((line, path, problem) for problem in problems)
            value = Substituted(text, plain=plain)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._place(value, line)

    def _key(self, key: str, line: int) -> None:
        frame = self._stack[-1]
        path = (*frame.path, key)
        frame.awaits_key = False
        frame.key = key
        if key == MERGE:
            return
        if key in frame.container:
            first = self.document.lines[path]
            self.document.problems.append((line, path, f"is set twice; the first is on line {first}"))
        self.document.lines.setdefault(path, line)

    def _begin(self, event: Any) -> None:  # noqa: ANN401
        line = _line(event)
        if event.tag is not None:
            raise DocumentError(line, self._path(), "has a tag (`!…`); tags aren't allowed")
        if self._stack and self._stack[-1].awaits_key:
            raise DocumentError(line, self._stack[-1].path, "has a list or a mapping as a key; keys must be text")
        if len(self._stack) >= MAX_DEPTH:
            raise DocumentError(line, None, f"the nesting is deeper than {MAX_DEPTH} levels")
        before = self._nodes
        self._count(1, line)
        path = self._path()
        self.document.lines.setdefault(path, line)
        container: dict[str, Any] | list[Any] = {} if type(event).__name__ == "MappingStartEvent" else []
        if event.anchor:
            self._open.add(event.anchor)
        self._stack.append(_Frame(container, path, event.anchor, before))

    def _end(self, event: Any) -> None:  # noqa: ANN401
        frame = self._stack.pop()
        if isinstance(frame.container, dict):
            for merged in frame.merged:
                for key, value in merged.items():
                    frame.container.setdefault(key, value)
        if frame.anchor:
            self._open.discard(frame.anchor)
            self._anchors[frame.anchor] = (frame.container, self._nodes - frame.before)
        self._place(frame.container, _line(event))

    def _alias(self, event: Any) -> None:  # noqa: ANN401
        line = _line(event)
        if event.anchor in self._open:
            raise DocumentError(line, self._path(), "refers to itself")
        if event.anchor not in self._anchors:
            raise DocumentError(line, self._path(), "is an alias (*) without an anchor (&) above it")
        if self._stack and self._stack[-1].awaits_key:
            raise DocumentError(line, self._stack[-1].path, "has an alias (*) as a key; keys must be text")
        value, size = self._anchors[event.anchor]
        self._count(size, line)
        self.document.lines.setdefault(self._path(), line)
        self._place(value, line)

    def _place(self, value: Any, line: int) -> None:  # noqa: ANN401
        if not self._stack:
            self.document.data = value
            return
        frame = self._stack[-1]
        if isinstance(frame.container, list):
            frame.container.append(value)
            return
        key = frame.key or ""
        frame.awaits_key = True
        if key == MERGE:
            self._merge(frame, value, line)
        else:
            frame.container.setdefault(key, value)

    def _merge(self, frame: _Frame, value: Any, line: int) -> None:  # noqa: ANN401
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, dict):
                raise DocumentError(line, frame.path, "merges (<<) something that isn't a mapping")
            frame.merged.append(part)

    def _path(self) -> Path:
        """The path of the next value."""
        if not self._stack:
            return ()
        frame = self._stack[-1]
        if isinstance(frame.container, list):
            return (*frame.path, len(frame.container))
        return frame.path if frame.key is None else (*frame.path, frame.key)

    def _count(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise DocumentError(line, None, f"with its aliases expanded, the document has more than {MAX_NODES} values")

    _HANDLERS = {  # noqa: RUF012 (never written to)
        "DocumentStartEvent": _document,
        "ScalarEvent": _scalar,
        "MappingStartEvent": _begin,
        "SequenceStartEvent": _begin,
        "MappingEndEvent": _end,
        "SequenceEndEvent": _end,
        "AliasEvent": _alias,
    }


def _line(event: Any) -> int:  # noqa: ANN401
    return int(event.start_mark.line) + 1
