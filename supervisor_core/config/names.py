"""Names that people give to workers, teams and hosts, ids of Slack, and sources that say who is on call."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Callable, Mapping
from typing import Annotated, Self

from supervisor_core.commands.catalog import FAMILIES, HANDLERS, find, nearest_command
from supervisor_core.commands.targets import WORKER_ID
from supervisor_core.config.document import Path
from supervisor_core.config.fields import NO_SECRET, NO_URL, Span, WebUrl, mask_url
from supervisor_core.config.sections import (
    Invalid,
    Reader,
    SecretStr,
    Section,
    checked,
    convert,
    number,
    pattern,
    quotable,
    resolved,
)

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


def unless_fault(describe_fault: Callable[[str], str | None]) -> Callable[[object], str]:
    """A check for names in which this function finds no fault."""

    def check(value: object) -> str:
        if fault := describe_fault(str(value)):
            raise Invalid(fault)
        return str(value)

    return check


def _team_fault(name: str) -> str | None:
    if re.fullmatch(_PLAIN_NAME, name):
        return None
    return "isn't a team name: use 1 to 64 letters A-Z, digits, dots, hyphens and underscores"


def _command_name(value: object, reader: Reader, _path: Path) -> str:
    """A command by its name, or by an alias or its handler, which become its name."""
    if isinstance(value, str) and value in reader.commands:
        return value
    definition = find(value) if isinstance(value, str) else None
    if definition is not None:
        return definition.name
    near = nearest_command(value) if isinstance(value, str) and quotable(value) else None
    meant = " or ".join(command.name for command in FAMILIES.get(near or "", ())) or near
    raise Invalid("must be a command name" + (f"; did you mean {meant}?" if meant else ""))


_PLAIN_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_CHANNEL = (r"[CGD][A-Z0-9]+", "a channel id (C…, at the end of its About tab), not a name", "channel id")

WorkerId = Annotated[str, checked(unless_fault(worker_id_fault), "worker id")]
TeamName = Annotated[str, checked(unless_fault(_team_fault), "name")]
HostId = Annotated[
    str,
    pattern(_PLAIN_NAME, "a name of 1 to 64 letters, digits, dots, hyphens and underscores", "name", empty=True),
    checked(lambda name: name or host_id()),
]
CommandName = Annotated[str, resolved(_command_name, "command")]
PersonId = Annotated[
    str,
    pattern(
        r"[UWSCG][A-Z0-9]+|\*", 'a user id (U…), a usergroup id (S…), a channel id (C…, for its members), or "*"', "id"
    ),
]
ChannelId = Annotated[str, pattern(*_CHANNEL)]
OptionalChannel = Annotated[str, pattern(*_CHANNEL, empty=True)]
UserName = Annotated[str, pattern(r"[^\s:/]+", "the login name of a user")]
UserId = Annotated[str, pattern(r"[UW][A-Z0-9]+", "a user id (U…)", "user id")]

ON_CALL_KEY = "oncall"
ON_CALL = f"{ON_CALL_KEY}:"
"""The beginning of the id of a source that says who is on call. Its members change, like those of a usergroup."""


class OnCallSettings(Section, frozen=True):
    """A source that says who is on call."""

    url: WebUrl = NO_URL
    secret: SecretStr = NO_SECRET
    command: tuple[str, ...] = ()
    cache_minutes: Span = 5.0
    timeout_seconds: Annotated[float, number(0.1, 10, "seconds")] = 3.0
    fallback: tuple[UserId, ...] = ()

    def check_values(self) -> None:
        if bool(self.url) is bool(self.command):
            raise Invalid("must have either url or command")
        if self.secret and not self.url:
            raise Invalid("is only for url", "secret")


class OnCallSource(str):
    """The id of a source in a list of people: `oncall:` and a digest of its settings, which it has along."""

    __slots__ = ("settings",)
    settings: OnCallSettings

    def __new__(cls, settings: OnCallSettings) -> Self:
        facts = [settings.url.get_secret_value(), settings.secret.get_secret_value(), *settings.command]
        facts += [str(settings.cache_minutes), str(settings.timeout_seconds), *settings.fallback]
        source = super().__new__(cls, f"{ON_CALL}{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}")
        source.settings = settings
        return source

    @property
    def shown(self) -> str:
        """The address or the program, without what may be secret."""
        url = self.settings.url.get_secret_value()
        return mask_url(url) if url else self.settings.command[0]


def _or_on_call(people: object) -> Callable[[object, Reader, Path], str | None]:
    """The same, or `{oncall: {…}}`."""

    def resolve(value: object, reader: Reader, path: Path) -> str | None:
        if not isinstance(value, Mapping):
            person: str = convert(people, value, reader, path)
            return person
        if set(value) != {ON_CALL_KEY}:
            raise Invalid("must be an id, or a section with the one key oncall")
        settings = reader.read_section(OnCallSettings, value[ON_CALL_KEY], (*path, ON_CALL_KEY))
        return OnCallSource(settings) if settings else None

    return resolve


_TARGET = pattern(r"[UWSCGD][A-Z0-9]+", "a user id (U…), a usergroup id (S…) or a channel id (C…)")
EscalationTarget = Annotated[str, resolved(_or_on_call(Annotated[str, _TARGET]), "id")]
ApproverId = Annotated[str, resolved(_or_on_call(PersonId), "id")]
