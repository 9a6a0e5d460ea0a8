"""The formats that `supervisor import` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.imports import cornerstone, supervisord
from supervisor_core.config.imports.conversion import Conversion, OldFile

MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of configuration."""

    name: str
    """Whose configuration it is."""
    recognize: Callable[[OldFile], bool]
    convert: Callable[[OldFile], Conversion]


FORMATS = (
    Format("Cornerstone Archive", cornerstone.recognize, cornerstone.convert),
    Format("supervisord", supervisord.recognize, supervisord.convert),
)


def convert_file(
    path: Path, worker_ids: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> tuple[Format, Conversion]:
    """Convert a file of another tool; `ConfigError` if it can't be read or has no known format."""
    text = _read(path)
    document, problem = _parsed(text)
    old = OldFile(path.absolute(), text, document, _read, tuple(worker_ids), environ)
    for each in FORMATS:
        if each.recognize(old):
            return each, each.convert(old)
    if isinstance(old.document, Mapping) and "workers" in old.document:
        raise ConfigError(f"{path} is already a configuration of the supervisor.")
    names = ", ".join(each.name for each in FORMATS)
    raise ConfigError(f"{path} has no known format{problem}. Formats: {names}.")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES:,} bytes. Is it the right file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} isn't UTF-8 text. Save it as UTF-8.") from None


def _parsed(text: str) -> tuple[object, str]:
    """The content as YAML; None for a file in another format, and where YAML ends."""
    try:
        return yaml.safe_load(text), ""
    except yaml.MarkedYAMLError as error:
        return None, f", and isn't valid YAML (line {error.problem_mark.line + 1})" if error.problem_mark else ""
    except yaml.YAMLError:
        return None, ""
