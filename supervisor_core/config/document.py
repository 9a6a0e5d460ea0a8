"""A YAML document as plain data with the line of every key: no tags, no duplicate keys, no bombs.

Only what is a number or a truth value in every reader's eyes becomes one: `0640`, `22:00` and `2026-01-01`
stay text. On the path of `supervisor status`: imports nothing heavy.
"""

from __future__ import annotations

import re

from supervisor_core.config.raw import Substituted, substitute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

Path = tuple[str | int, ...]
Problem = tuple[int, Path, str]

MAX_DEPTH = 32  # the deepest setting there is has six levels
MAX_NODES = 50_000  # values, with every alias counted as what it stands for
MERGE = "<<"
TEXT_TAG = "tag:yaml.org,2002:str"
TAGS = {"ScalarNode": TEXT_TAG, "SequenceNode": "tag:yaml.org,2002:seq", "MappingNode": "tag:yaml.org,2002:map"}

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,2})?")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None}
_WORDS |= {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class WrittenInt(int):
    """A whole number that remembers its notation, for settings that are text after all."""

    text = ""


class WrittenFloat(float):
    """A fractional number that remembers its notation: `1.10` may be a version."""

    text = ""


class DocumentError(Exception):
    """The rest of the document can't be read. Without a path, the reason is a sentence of its own."""

    def __init__(self, line: int, path: Path | None, reason: str) -> None:
        super().__init__(line, path, reason)
        self.line = line
        self.path = path
        self.reason = reason


def scalar(text: str) -> Any:  # noqa: ANN401
    """The value of text without quotes."""
    word = text.lower()
    if word in _WORDS and text in (word, word.upper(), word.capitalize()):
        return _WORDS[word]
    if not (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
        return text
    number = WrittenInt(text.replace("_", "")) if _INT.fullmatch(text) else WrittenFloat(text)
    number.text = text
    return number


class Document:
    """The data of PyYAML's nodes, the line of each path, and the problems with single values.

    Raises `DocumentError` if the document can't be read as a whole.
    """

    def __init__(self, root: Any, environment: Mapping[str, str]) -> None:  # noqa: ANN401 (a node, without types)
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._environment = environment
        self._open: list[Any] = []
        self._count = 0
        self.data: Any = self._value(root, ()) if root is not None else None

    def _value(self, node: Any, path: Path) -> Any:  # noqa: ANN401
        line, kind = node.start_mark.line + 1, type(node).__name__
        self.lines.setdefault(path, line)
        self._count += 1
        if self._count > MAX_NODES:
            reason = f"with its aliases expanded, the document has more than {MAX_NODES} values"
            raise DocumentError(line, None, reason)
        if node.tag != TAGS[kind]:
            raise DocumentError(line, path, "has a tag (`!…`); tags aren't allowed")
        if kind == "ScalarNode":
            return self._scalar(node, path, line)
        if any(node is other for other in self._open):
            raise DocumentError(line, path, "refers to itself")
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(line, None, f"the nesting is deeper than {MAX_DEPTH} levels")
        self._open.append(node)
        value: Any
        if kind == "SequenceNode":
            value = [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        else:
            value = self._mapping(node, path)
        self._open.pop()
        return value

    def _scalar(self, node: Any, path: Path, line: int) -> Any:  # noqa: ANN401
        is_plain = not node.style
        if "$" not in node.value:
            return scalar(node.value) if is_plain else node.value
        text, problems = substitute(node.value, self._environment)
        self.problems.extend((line, path, problem) for problem in problems)
        return Substituted(text, plain=is_plain)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:  # noqa: ANN401
        values: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        for key_node, value_node in node.value:
            line, key = key_node.start_mark.line + 1, key_node.value
            if type(key_node).__name__ != "ScalarNode" or key_node.tag != TEXT_TAG:
                raise DocumentError(line, path, "has a list, a mapping or a tag as a key; keys must be text")
            if key == MERGE:
                parts = value_node.value if type(value_node).__name__ == "SequenceNode" else [value_node]
                merged += [self._value(part, (*path, MERGE)) for part in parts]
                if not all(isinstance(part, dict) for part in merged):
                    raise DocumentError(line, path, "merges (<<) something that isn't a mapping")
                continue
            if key in values:
                first = self.lines[(*path, key)]
                self.problems.append((line, (*path, key), f"is set twice; the first is on line {first}"))
            self.lines.setdefault((*path, key), line)
            value = self._value(value_node, (*path, key))
            values.setdefault(key, value)
        for part in merged:
            values = {**part, **values}
        return values
