"""A converted configuration: the new document, and the result for each old setting."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any

import yaml

from supervisor_core.common.errors import ConfigError
from supervisor_core.common.text import one_line
from supervisor_core.config.names import worker_id_fault
from supervisor_core.config.setup.files import document_text

_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::[^}]*)?\}"
_LITERAL_DOLLAR = re.compile(rf"\$(?!{_VARIABLE[2:]})")
_REQUIRED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

HEADER = """\
# Converted from {source} by `supervisor import`. Check it with `supervisor config check`.
# Every setting is described in docs/reference/configuration.md.
"""


SECRET = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|DSN", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
LONGEST_SOURCE = 500  # characters
MOST_WORKERS = 1000
"""Of one import."""


def is_secret(name: str, value: str) -> bool:
    """True for the value of a variable that looks like a password, a token or a key."""
    return bool(value) and bool(SECRET.search(name) or _WITH_PASSWORD.search(value))


class NewNames:
    """The names that the new configuration has so far: its workers, and the variables for secrets."""

    def __init__(self) -> None:
        self._workers: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The last number behind each name that several workers have."""
        self._secrets: dict[str, str] = {}

    def worker_id(self, name: str) -> str:
        """A unique worker id for this name."""
        found = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:56] or "worker"
        if worker_id_fault(found):
            found = f"worker-{found}"
        if len(self._workers) >= MOST_WORKERS:
            raise ConfigError(f"These are more than {MOST_WORKERS:,} workers. Import fewer files, or fewer processes.")
        unique, number = found, self._numbers.get(found.casefold(), 1)
        while unique.casefold() in self._workers:
            number += 1
            unique = f"{found}-{number}"
        self._numbers[found.casefold()] = number
        self._workers.add(unique.casefold())
        return unique

    def secret(self, owner: str, name: str, value: str) -> str:
        """The variable that stands for a secret: of this name, or another one if it has another value elsewhere."""
        variable = name
        if self._secrets.get(variable, value) != value:
            variable = re.sub(r"[^A-Z0-9]+", "_", f"{owner}_{name}".upper()).lstrip("_0123456789")
        self._secrets[variable] = value
        return variable

    def notes(self) -> Iterator[str]:
        """A sentence for each secret."""
        for name in self._secrets:
            yield f"{name} stands for a value that looks like a secret, which isn't copied."


@dataclass(frozen=True, slots=True)
class OldFile:
    """The file to convert, with its context."""

    path: Path
    text: str
    document: Any
    """The parsed YAML, with its variables unresolved; None for another kind of file."""
    read: Callable[[Path], str]
    """Reads a file that this one includes; `ConfigError` if it can't be read or is too large."""
    worker_ids: tuple[str, ...] = ()
    """The workers that the user named."""
    environ: Mapping[str, str] | None = None
    names: NewNames = field(default_factory=NewNames)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A setting without a place in the new configuration."""

    key: str
    """Such as `nas.scratch`."""
    reason: str
    """Why, and what to do instead."""
    file: str
    line: int = 0

    @property
    def place(self) -> str:
        """Its file and line."""
        return f"{self.file} line {self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion."""

    document: Mapping[str, Any]
    leftovers: tuple[Leftover, ...]
    notes: tuple[str, ...] = ()
    """Sentences for the user: what to check or to do by hand."""

    @property
    def unmapped(self) -> Mapping[str, str]:
        """The reasons of the settings without a place, by their keys."""
        return {each.key: each.reason for each in self.leftovers}

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that must be set for the new configuration."""
        texts = (text for _, text in leaves(self.document) if isinstance(text, str))
        return tuple(dict.fromkeys(name for text in texts for name in required_variables(text)))

    def text(self, source: str) -> str:
        """The new configuration as a file."""
        return document_text(self.document, HEADER.format(source=one_line(source, LONGEST_SOURCE)), {})


def merge(conversions: Sequence[Conversion]) -> Conversion:
    """The conversions of several files as one: all workers and teams, and of another section the first one."""
    sections = dict.fromkeys(name for each in conversions for name in each.document if name not in ("workers", "teams"))
    document: dict[str, Any] = {
        name: next(each.document[name] for each in conversions if name in each.document) for name in sections
    }
    notes = [note for each in conversions for note in each.notes]
    notes += [
        f"The section {name} is that of the first file. Check it."
        for name in sections
        if len({str(each.document[name]) for each in conversions if name in each.document}) > 1
    ]
    document["workers"] = {}
    for each in conversions:
        if twice := document["workers"].keys() & each.document["workers"].keys():
            raise ConfigError(f"Two files have a worker {min(twice)}.", remedy="Import them into two configurations.")
        document["workers"] |= each.document["workers"]
    if teams := {name: team for each in conversions for name, team in each.document.get("teams", {}).items()}:
        document["teams"] = teams
    leftovers = tuple(leftover for each in conversions for leftover in each.leftovers)
    return Conversion(document, leftovers, tuple(dict.fromkeys(notes)))


def yaml_lines(text: str) -> Mapping[str, int]:
    """The line of each setting of a YAML document, by the keys of `leaves`. Empty for a text that isn't YAML."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    return dict(_node_lines(root, "", set())) if root is not None else {}


def _node_lines(node: yaml.Node, key: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if id(node) in seen:
        return  # the second name of an anchor, which may contain itself
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            below = f"{key}.{name.value}" if key else str(name.value)
            yield below, name.start_mark.line + 1
            yield from _node_lines(value, below, seen)
    elif isinstance(node, yaml.SequenceNode):
        for place, each in enumerate(node.value):
            yield f"{key}[{place}]", each.start_mark.line + 1
            yield from _node_lines(each, f"{key}[{place}]", seen)


def in_home(text: str) -> Path:
    """The path with `~` for a home; as it is if nobody has this name."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def is_in_checkout(folder: Path) -> bool:
    """True for a folder of this host in a git checkout: only there can code be updated and rolled back."""
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def leaves(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Each setting with its key: `watcher.test_mode`, `items[0]`. An empty section is one."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from leaves(each, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from leaves(each, f"{key}[{place}]")
    else:
        yield key, value


def required_variables(text: str) -> list[str]:
    """The variables without a default in a text."""
    return _REQUIRED.findall(text)


def quoted(text: str) -> str:
    """Text for the new configuration: `${VAR}` stays a variable, any other dollar sign is a literal one."""
    return _LITERAL_DOLLAR.sub("$$", text)


def word(text: str) -> str:
    """Literal text as a word of a command: dollars and braces have no meaning in it."""
    return text.replace("$", "$$").replace("{", "{{").replace("}", "}}")


def is_of_windows(path: str) -> bool:
    """True for a path with a drive letter or a server name."""
    return bool(PureWindowsPath(path).drive)


def is_foreign(path: str) -> bool:
    """True for a path that means nothing on this host."""
    return os.name != "nt" and is_of_windows(path)
