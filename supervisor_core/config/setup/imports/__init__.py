"""Configurations of other tools, converted for `supervisor import`. It looks at processes and the drive, and changes
nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import yaml

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.problems import as_mapping, is_of_cornerstone
from supervisor_core.config.raw import read_text
from supervisor_core.config.setup.imports import cornerstone, pm2, supervisord, systemd
from supervisor_core.config.setup.imports.conversion import Conversion, leaves

FORMATS = "Cornerstone Archive, systemd, supervisord, and the output of `pm2 jlist`"
MOST_SETTINGS = 100_000  # of one file: a YAML document can name the same part again and again


def convert_files(
    paths: Sequence[Path], worker_ids: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> Conversion:
    """Convert files into one configuration. `ConfigError` if one can't be read or converted."""
    conversion = Conversion()
    for path in dict.fromkeys(paths):
        text, here = read_text(systemd.source_of(path)), path.absolute()
        document = _parse_yaml(path, text)
        if is_of_cornerstone(as_mapping(document)):
            cornerstone.convert(conversion, here, document, worker_ids, environ)
        elif systemd.recognize(here, text):
            systemd.convert(conversion, here, text)
        elif supervisord.recognize(text):
            supervisord.convert(conversion, here, text)
        elif pm2.recognize(document):
            pm2.convert(conversion, document)
        elif isinstance(document, Mapping) and "workers" in document:
            raise ConfigError(f"{path} is already a configuration of the supervisor.")
        else:
            raise ConfigError(f"{path} has no known format. Formats: {FORMATS}.")
    return conversion


def _parse_yaml(path: Path, text: str) -> object:
    """The content as YAML, which JSON is, too; None for another format."""
    try:
        document = yaml.safe_load(text)  # the loader in C crashes at a text that nests deeply
        too_many = next(islice(leaves(document), MOST_SETTINGS, None), None) is not None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return None
    if too_many:
        raise ConfigError(f"{path} has more than {MOST_SETTINGS:,} settings. Is it the right file?")
    return document
