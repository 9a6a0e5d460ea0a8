"""The configuration: read, checked, and explained where it is wrong.

Nothing is imported until it is asked for, so that `supervisor status` can read one setting without pydantic.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.config.credentials import SlackCredentials, slack_credentials
    from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
    from supervisor_core.config.models import Settings
    from supervisor_core.config.raw import RawConfig, find_config, read_raw, state_dir_of
    from supervisor_core.config.workers import Worker

_HOMES = {
    "RawConfig": "raw",
    "Settings": "models",
    "SlackCredentials": "credentials",
    "SupervisorConfig": "load",
    "Worker": "workers",
    "find_config": "raw",
    "load_supervisor_config": "load",
    "read_raw": "raw",
    "slack_credentials": "credentials",
    "state_dir_of": "raw",
}

__all__ = [
    "RawConfig",
    "Settings",
    "SlackCredentials",
    "SupervisorConfig",
    "Worker",
    "find_config",
    "load_supervisor_config",
    "read_raw",
    "slack_credentials",
    "state_dir_of",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
