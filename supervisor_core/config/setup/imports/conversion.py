"""A configuration while other tools' files are converted into it: workers, secrets and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import ConfigError
from supervisor_core.common.text import one_line
from supervisor_core.config.fields import worker_id_fault
from supervisor_core.config.setup.files import document_text

_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::[^}]*)?\}"
_LITERAL_DOLLAR = re.compile(rf"\$(?!{_VARIABLE[2:]})")
_REQUIRED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|DSN", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")

HEADER = """\
# Converted from {source} by `supervisor import`. Check it with `supervisor config check`.
# Every setting is described in docs/reference/configuration.md.
"""

LONGEST_SOURCE = 500  # characters
MOST_WORKERS = 1000  # of one import


class Conversion:
    """The new configuration, and notes for its user: what isn't converted, and what to check or to do by hand."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.sections: dict[str, Any] = {}
        self._workers: dict[str, Any] = {}
        self._secrets: dict[str, str] = {}

    @property
    def document(self) -> dict[str, Any]:
        teams: dict[str, Any] = {worker["team"]: {} for worker in self._workers.values() if "team" in worker}
        return {**self.sections, "workers": self._workers, **({"teams": teams} if teams else {})}

    def text(self, source: str) -> str:
        """The new configuration as a file."""
        return document_text(self.document, HEADER.format(source=one_line(source, LONGEST_SOURCE)), {})

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def note_unconverted(self, file: str, keys: Iterable[str]) -> None:
        if names := ", ".join(keys):
            self.note(f"Not converted from {file}: {names}.")

    def add_worker(self, name: str, worker: Mapping[str, Any], *, exact: bool = False) -> None:
        """Add a worker by a unique id for this name; an `exact` name is its id."""
        if len(self._workers) >= MOST_WORKERS:
            raise ConfigError(f"These are more than {MOST_WORKERS:,} workers. Import fewer files, or fewer processes.")
        worker_id = name if exact else re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:56] or "worker"
        if fault := worker_id_fault(worker_id):
            if exact:
                raise ConfigError(f"{worker_id} {fault}.")
            worker_id = f"worker-{worker_id}"
        known, base, number = {worker_id.casefold() for worker_id in self._workers}, worker_id, 1
        while worker_id.casefold() in known:
            if exact:
                raise ConfigError(f"Two files have a worker {name}.", remedy="Import them into two configurations.")
            number += 1
            worker_id = f"{base}-{number}"
        if worker_id != name:
            self.note(f"{name} is the worker {worker_id}: an id has letters, digits, dots and hyphens.")
        self._workers[worker_id] = dict(worker)

    def hide_secret(self, owner: str, name: str, value: str) -> str | None:
        """The variable that stands for this value, if it looks like a password, a token or a key."""
        if not value or not (_SECRET.search(name) or _WITH_PASSWORD.search(value)):
            return None
        variable = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if self._secrets.get(variable, value) != value:
            variable = re.sub(r"[^A-Z0-9]+", "_", f"{owner}_{name}".upper()).lstrip("_0123456789")
        self._secrets[variable] = value
        self.note(f"{variable} stands for a value that looks like a secret, which isn't copied.")
        return variable


def folder_settings(folder: str) -> dict[str, Any]:
    """`cwd`, and `code` if the folder is in a checkout of this host: only there can code be updated and rolled back."""
    settings: dict[str, Any] = {"cwd": folder}
    return {**settings, "code": {"path": folder}} if is_in_checkout(Path(folder)) else settings


def is_in_checkout(folder: Path) -> bool:
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))


def leaves(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Each setting with its key: `watcher.test_mode`, `items[0]`. An empty section is one."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from leaves(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from leaves(item, f"{key}[{number}]")
    else:
        yield key, value


def required_variables(value: object) -> list[str]:
    """The variables without a default in a document."""
    texts = (text for _, text in leaves(value) if isinstance(text, str))
    return list(dict.fromkeys(name for text in texts for name in _REQUIRED.findall(text)))


def quoted(text: str) -> str:
    """Text for the new configuration: `${VAR}` stays a variable, any other dollar sign is a literal one."""
    return _LITERAL_DOLLAR.sub("$$", text)


def word(text: str) -> str:
    """Literal text as a word of a command: dollars and braces have no meaning in it."""
    return text.replace("$", "$$").replace("{", "{{").replace("}", "}}")
