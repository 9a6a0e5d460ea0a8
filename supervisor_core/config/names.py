"""Names that people give to workers, teams and hosts, and ids of Slack: the valid ones, and why others aren't."""

from __future__ import annotations

import re
import socket
from typing import Annotated

from supervisor_core.commands.catalog import FAMILIES, HANDLERS, find, nearest_command
from supervisor_core.commands.targets import WORKER_ID
from supervisor_core.common.section_checks import BeforeValidator, Invalid
from supervisor_core.config.fields import Kind, matching, quotable

MAX_NAME = 64  # characters, of a worker, a team or a host
FLAG_WORDS = frozenset({"deps", "watcher"})  # `supervisor_update_code_deps.flag` must mean one thing
FLEET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
"""A host's name in a fleet, where it's one word of a NATS subject."""

FLEET_NAME_WORDS = "a name of 1 to 63 letters, digits and hyphens, starting with a letter or digit"
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|nan|inf|infinity", re.IGNORECASE)


def worker_id_fault(name: str) -> str | None:
    """The reason why a worker can't have this name, in words that follow it; None for a valid one."""
    folded = name.casefold()
    if not WORKER_ID.fullmatch(name):
        return "isn't a worker id: use 1 to 64 letters, digits, dots and hyphens, starting with a letter or digit"
    if _NUMBER.fullmatch(name):
        return "isn't a worker id: a number would be read as an argument; add a letter in front"
    if folded == "all":
        return "isn't a worker id: it means every worker"
    if find(name) or folded in FAMILIES or folded in HANDLERS:
        return "isn't a worker id: it's the name of a command"
    if folded in FLAG_WORDS:
        return "isn't a worker id: in a flag's name it would be read as part of the command"
    return None


def host_id() -> str:
    """The name of this host where the configuration has none."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("._-")[:MAX_NAME]
    return name or "supervisor"


def _worker_id(value: object) -> str:
    name = str(value)
    fault = worker_id_fault(name)
    if fault:
        raise Invalid(fault)
    return name


def _team_name(value: object) -> str:
    try:
        return str(_plain_name(value))
    except ValueError:
        raise Invalid("isn't a team name: use 1 to 64 letters A-Z, digits, dots, hyphens and underscores") from None


def _host(value: object) -> str:
    return host_id() if value == "" else _plain_name(value)


def _command_name(value: object) -> str:
    """A command by its name, or by an alias or its handler, which become its name."""
    definition = find(value) if isinstance(value, str) else None
    if definition is not None:
        return definition.name
    near = nearest_command(value) if isinstance(value, str) and quotable(value) else None
    meant = " or ".join(each.name for each in FAMILIES.get(near or "", ())) or near
    raise Invalid("must be a command name" + (f"; did you mean {meant}?" if meant else ""))


_plain_name = matching(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "a name of 1 to 64 letters, digits, dots, hyphens and underscores"
)

WorkerId = Annotated[str, BeforeValidator(_worker_id), Kind("worker id")]
TeamName = Annotated[str, BeforeValidator(_team_name), Kind("name")]
HostId = Annotated[str, BeforeValidator(_host), Kind("name")]
CommandName = Annotated[str, BeforeValidator(_command_name), Kind("command")]
PersonId = Annotated[
    str,
    BeforeValidator(
        matching(
            r"[UWSCG][A-Z0-9]+|\*",
            'a user id (U…), a usergroup id (S…), a channel id (C…, for its members), or "*"',
        )
    ),
    Kind("id"),
]
ChannelId = Annotated[
    str,
    BeforeValidator(matching(r"[CGD][A-Z0-9]+", "a channel id (C…, at the end of its About tab), not a name")),
    Kind("channel id"),
]
OptionalChannel = Annotated[
    str,
    BeforeValidator(
        matching(r"[CGD][A-Z0-9]+", "a channel id (C…, at the end of its About tab), not a name", empty=True)
    ),
    Kind("channel id"),
]
EscalationTarget = Annotated[
    str,
    BeforeValidator(matching(r"[UWSCGD][A-Z0-9]+", "a user id (U…), a usergroup id (S…) or a channel id (C…)")),
    Kind("id"),
]
