"""The configuration of a host for a test: workers that do nothing, and a drive in the folder `nas`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config


def configured(
    folder: Path, workers: Mapping[str, Mapping[str, Any]] | Iterable[str] = ("OrionMX",), **sections: Any
) -> SupervisorConfig:
    """Write and load it; each worker has its settings over the usual command."""
    given = workers if isinstance(workers, Mapping) else {name: {} for name in workers}
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {name: {"command": ["{python}", "-V"], **settings} for name, settings in given.items()},
        **sections,
    }
    (folder / "nas").mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_supervisor_config(path, environ={})
