"""A converted configuration: the new document, and what became of each setting of the old one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

import yaml

_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::[^}]*)?\}"
_LITERAL_DOLLAR = re.compile(rf"\$(?!{_VARIABLE[2:]})")
_REQUIRED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

HEADER = """\
# Converted from {source} by `supervisor import`. Check it with `supervisor config check`.
# Every setting is described in docs/reference/configuration.md.
"""


@dataclass(frozen=True, slots=True)
class OldFile:
    """The file to convert, and what to convert it with."""

    path: Path
    text: str
    document: Any
    """The parsed YAML, with its variables unresolved; None for another kind of file."""
    read: Callable[[Path], str]
    """Reads a file that this one includes; `ConfigError` if it can't be read or is too large."""
    worker_ids: tuple[str, ...] = ()
    """The workers that the user named."""
    environ: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion."""

    document: Mapping[str, Any]
    unmapped: Mapping[str, str]
    """The settings that have no place in it, such as `nas.scratch`, each with the reason."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: what to check or to do by hand."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that must be set for the new configuration."""
        texts = (text for _, text in leaves(self.document) if isinstance(text, str))
        return tuple(dict.fromkeys(name for text in texts for name in required_variables(text)))

    def text(self, source: str) -> str:
        """The new configuration as a file."""
        body = yaml.safe_dump(dict(self.document), sort_keys=False, allow_unicode=True, width=110)
        return HEADER.format(source=source) + body


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
