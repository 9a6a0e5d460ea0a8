"""The section `fleet` of a configuration, written so that everything else in the file stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from supervisor_core.common.errors import ConfigError, UsageError
from supervisor_core.config.load import SupervisorConfig, check_raw
from supervisor_core.config.problems import HUB
from supervisor_core.config.raw import MAX_BYTES, parse_raw
from supervisor_core.config.setup.files import write_file
from supervisor_core.fleet.members import JoinToken
from supervisor_core.host.files import read_limited

LOCAL = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class PlannedConfig:
    """The content that a configuration file will have, which is valid, and the changes in words."""

    path: Path
    text: str
    config: SupervisorConfig
    changes: tuple[str, ...]

    def write(self) -> None:
        """Replace the file durably; its mode stays. Without a change, nothing is written."""
        if not self.changes:
            return
        write_file(self.path, self.text, replace=True)


def plan_hub(path: Path, url: str) -> PlannedConfig:
    """The configuration with the section of a hub; `ConfigError` if it would have mistakes.

    Its server listens on the port of its URL, on all addresses unless the URL is local.
    """
    parts = urlsplit(url)
    address = parts.hostname if parts.hostname in LOCAL else "0.0.0.0"  # noqa: S104 (for hosts)
    section = (
        f"fleet:\n  role: hub\n  url: {json.dumps(url)}\n  credentials: fleet/hub.seed\n"
        f'  server:\n    run: true  # the daemon runs nats-server\n    listen: "{address}:{parts.port or 4222}"\n'
    )
    return _checked(path, f"{_read(path).rstrip()}\n\n{section}", ("the new section fleet",))


def plan_host(path: Path, token: JoinToken) -> PlannedConfig:
    """The configuration as the host of a token; without a file, a new one without workers.

    `UsageError` if the file is another host's or has another fleet, `ConfigError` if it would have mistakes.
    """
    name, certificate = token.host, "  ca: fleet/ca.pem\n" if token.ca else ""
    section = (
        f"fleet:\n  role: host\n  url: {json.dumps(token.url)}\n  credentials: fleet/host.seed\n{certificate}"
        f"  hub_key: {token.hub_key}\n"
    )
    text = _read(path) if path.exists() else ""
    data: Mapping[str, Any] = parse_raw(text, str(path)).data if text.strip() else {}
    changes: list[str] = []
    fleet = _section(data, "fleet")
    settings = yaml.safe_load(section)["fleet"]
    if fleet and any(str(fleet.get(setting)) != str(value) for setting, value in settings.items()):
        what = "the hub of a fleet" if fleet.get("role") == HUB else "in another fleet"
        raise UsageError(
            f"This host is {what}: see the section fleet in {path}.", remedy="Remove that section, and join again."
        )
    known = _section(data, "supervisor").get("id")
    if known not in (None, "", name):
        raise UsageError(
            f"This host's supervisor.id in {path} is {known}, and the token is for {name}.",
            remedy=f"On the hub, run `supervisor fleet invite {known}`. Or change supervisor.id to {name}.",
        )
    if known != name:
        text = set_value(text, "supervisor", "id", name)
        changes.append(f"supervisor.id: {name}")
    if str(_section(data, "slack").get("enabled", True)).casefold() != "false":
        text = set_value(text, "slack", "enabled", value=False)
        changes.append("slack.enabled: false (the hub runs the bot)")
    if not fleet:
        text = f"{text.rstrip()}\n\n{section}"
        changes.append("the new section fleet")
    return _checked(path, text, tuple(changes))


def _checked(path: Path, text: str, changes: tuple[str, ...]) -> PlannedConfig:
    return PlannedConfig(path, text, check_raw(parse_raw(text, str(path))), changes)


def _read(path: Path) -> str:
    try:
        return read_limited(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{path} can't be read.") from None


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def set_value(text: str, section: str, name: str, value: str | bool) -> str:
    """The text with `section.name` set to this value, in the style that the section is written in."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return f"{text}{_new_section(section, name, value)}"
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError("The configuration isn't a mapping of sections.")
    found = _value(root, section)
    if found is None and root.flow_style:
        return _inserted(text, root, section, f"{{{name}: {_written(value)}}}")
    if found is None:
        return f"{text.rstrip()}\n\n{_new_section(section, name, value)}"
    if not isinstance(found, yaml.MappingNode):  # `slack:` with nothing behind it
        return f"{text[: found.start_mark.index]} {{{name}: {_written(value)}}}{text[found.end_mark.index :]}"
    old = _value(found, name)
    if old is None:
        return _inserted(text, found, name, _written(value))
    return f"{text[: old.start_mark.index]}{_written(value)}{text[old.end_mark.index :]}"


def _inserted(text: str, mapping: yaml.MappingNode, name: str, value: str) -> str:
    at = mapping.start_mark.index
    if mapping.flow_style:
        return f"{text[: at + 1]}{name}: {value}{', ' if mapping.value else ''}{text[at + 1 :]}"
    return f"{text[:at]}{name}: {value}\n{' ' * mapping.start_mark.column}{text[at:]}"


def _value(mapping: yaml.MappingNode, name: str) -> yaml.Node | None:
    return next((value for key, value in mapping.value if key.value == name), None)


def _new_section(section: str, name: str, value: str | bool) -> str:
    return f"{section}:\n  {name}: {_written(value)}\n"


def _written(value: str | bool) -> str:
    """The value as YAML. A name is quoted only if it would be read as something else."""
    plain = isinstance(value, str) and value and value.replace("-", "").replace("_", "").isalnum()
    return value if plain and yaml.safe_load(str(value)) == value else json.dumps(value)  # type: ignore[return-value]
