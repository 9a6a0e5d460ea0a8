"""`runtime.json`: what the daemon last said of itself. Metadata; whether it lives, the lock says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from supervisor_core.adapters.files import read_json, write_json

FILE_NAME = "runtime.json"


def write(state_dir: Path, document: Mapping[str, Any]) -> None:
    """Say it; one writer, the daemon."""
    write_json(state_dir / FILE_NAME, dict(document), mode=0o600)


def read(state_dir: Path) -> Mapping[str, Any]:
    """What was last said; empty where nothing readable was."""
    return read_json(state_dir / FILE_NAME, tolerant=True) or {}
