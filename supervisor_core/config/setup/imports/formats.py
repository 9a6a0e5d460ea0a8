"""The formats that `supervisor import` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import yaml

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.setup.imports import cornerstone, pm2, supervisord, systemd
from supervisor_core.config.setup.imports.conversion import Conversion, NewNames, OldFile, leaves, merge

MAX_BYTES = 1_000_000
MOST_SETTINGS = 100_000
"""Of one file. A YAML document can name the same part again and again."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of configuration."""

    name: str
    """Whose configuration it is."""
    recognize: Callable[[OldFile], bool]
    convert: Callable[[OldFile], Conversion]


FORMATS = (
    Format("Cornerstone Archive", cornerstone.recognize, cornerstone.convert),
    Format("systemd", systemd.recognize, systemd.convert),
    Format("supervisord", supervisord.recognize, supervisord.convert),
    Format("pm2", pm2.recognize, pm2.convert),
)


def convert_files(
    paths: Sequence[Path], worker_ids: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> tuple[tuple[Format, ...], Conversion]:
    """Convert files of other tools into one configuration; returns the format of each.

    `ConfigError` if one can't be read, has no known format, or can't be converted.
    """
    names, formats, conversions = NewNames(), [], []
    for path in dict.fromkeys(paths):
        found, conversion = _convert(path, worker_ids, environ, names)
        formats.append(found)
        conversions.append(conversion)
    return tuple(formats), conversions[0] if len(conversions) == 1 else merge(conversions)


def convert_file(
    path: Path, worker_ids: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> tuple[Format, Conversion]:
    """The same for one file."""
    (found,), conversion = convert_files([path], worker_ids, environ)
    return found, conversion


def _convert(
    path: Path, worker_ids: Sequence[str], environ: Mapping[str, str] | None, names: NewNames
) -> tuple[Format, Conversion]:
    text = _read(systemd.source_of(path))
    document, problem = _parsed(path, text)
    old = OldFile(path.absolute(), text, document, _read, tuple(worker_ids), environ, names)
    for each in FORMATS:
        if each.recognize(old):
            return each, each.convert(old)
    if isinstance(old.document, Mapping) and "workers" in old.document:
        raise ConfigError(f"{path} is already a configuration of the supervisor.")
    known = ", ".join(each.name for each in FORMATS)
    raise ConfigError(f"{path} has no known format{problem}. Formats: {known}.")


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


def _parsed(path: Path, text: str) -> tuple[object, str]:
    """The content as YAML; None for a file in another format, and where YAML ends."""
    try:
        document = yaml.safe_load(text)  # the loader in C crashes at a text that nests deeply
        too_many = next(islice(leaves(document), MOST_SETTINGS, None), None) is not None
    except yaml.MarkedYAMLError as error:
        return None, f", and isn't valid YAML (line {error.problem_mark.line + 1})" if error.problem_mark else ""
    except (yaml.YAMLError, ValueError, TypeError):
        return None, ""
    except RecursionError:
        return None, ", and nests too deeply"
    if too_many:
        raise ConfigError(f"{path} has more than {MOST_SETTINGS:,} settings. Is it the right file?")
    return document, ""
