"""The last good configuration: kept by the daemon in its state folder, used by commands while the file can't be."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.raw import (
    DEFAULT_STATE_DIR,
    RawConfig,
    absolute,
    find_config,
    parse_raw,
    read_raw,
    state_dir_of,
    substitute,
)
from supervisor_core.host.files import read_json, write_json

if TYPE_CHECKING:
    from supervisor_core.config.load import SupervisorConfig

LAST_GOOD_FILE = "config_last_good.json"
MAX_BYTES = 1_000_000
_STATE_DIR = re.compile(r"""^[ \t{]+state_dir[ \t]*:[ \t]*(["']?)([^"'#\n}]+)\1""", re.MULTILINE)


def keep(config: SupervisorConfig) -> None:
    """Keep this valid configuration. `OSError` if the disk refuses."""
    path, document = config.state_dir / LAST_GOOD_FILE, {"path": str(config.path), "text": config.text}
    if read_json(path, tolerant=True) != document:
        write_json(path, document)


def load(running: SupervisorConfig) -> SupervisorConfig | None:
    """The last good configuration of the daemon before this one, as it would be in this environment."""
    from supervisor_core.config.load import check_raw

    text = _kept_text(running.state_dir, str(running.path))
    try:
        return None if text is None else check_raw(parse_raw(text, str(running.path)))
    except ConfigError:
        return None


def load_or_last_good(path: str | None) -> tuple[SupervisorConfig, str]:
    """The configuration and an empty text; else the last good one and the problem of the file."""
    from supervisor_core.config.load import check_raw, load_supervisor_config, put_commands_in_force

    try:
        return load_supervisor_config(path), ""
    except ConfigError as error:
        raw = read_last_good(path)
        if raw is None:
            raise
        try:
            config = check_raw(raw)
        except ConfigError:  # what was good can't be used in this environment either
            raise error from None
        put_commands_in_force(config)
        return config, error.message


def read_last_good(path: str | None) -> RawConfig | None:
    """The copy of this file in its state folder. A file that isn't YAML is searched for the line of its `state_dir`."""
    try:
        label = find_config(path)
    except ConfigError:
        return None
    file = absolute("", label)
    try:
        folders = [state_dir_of(read_raw(label))]
    except ConfigError:
        try:
            with Path(file).open(encoding="utf-8", errors="replace") as opened:
                content = opened.read(MAX_BYTES)
        except OSError:
            content = ""
        names = [substitute(match[2].strip(), os.environ)[0] for match in _STATE_DIR.finditer(content)]
        parent = str(Path(file).parent)
        folders = [absolute(parent, name) for name in [*names, DEFAULT_STATE_DIR] if name and "\0" not in name]
    for folder in folders:
        text = _kept_text(Path(folder), file)
        if text is not None:
            try:
                return parse_raw(text, label)
            except ConfigError:
                return None
    return None


def _kept_text(state_dir: Path, file: str) -> str | None:
    """The copy in this folder, if it is of this file."""
    try:
        document = read_json(state_dir / LAST_GOOD_FILE, tolerant=True) or {}
    except OSError:
        return None
    text = document.get("text")
    return text if document.get("path") == file and isinstance(text, str) else None
