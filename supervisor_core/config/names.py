"""Names that people give to workers, teams and hosts, ids of Slack, and sources that say who is on call: the valid
ones, and why others aren't."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Mapping
from typing import Annotated, Any, Self

from supervisor_core.commands.catalog import FAMILIES, HANDLERS, find, nearest_command
from supervisor_core.commands.targets import WORKER_ID
from supervisor_core.common.sections import (
    BeforeValidator,
    Context,
    Field,
    Invalid,
    SecretStr,
    Section,
    ValidationError,
)
from supervisor_core.config.fields import (
    Kind,
    Line,
    Number,
    Secret,
    SecretUrl,
    Span,
    WebUrl,
    kind_of,
    mask_url,
    matching,
    quotable,
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


def _worker_id(value: object) -> str:
    if fault := worker_id_fault(name := str(value)):
        raise Invalid(fault)
    return name


def _team_name(value: object) -> str:
    try:
        return str(_plain_name(value))
    except ValueError:
        raise Invalid("isn't a team name: use 1 to 64 letters A-Z, digits, dots, hyphens and underscores") from None


def _command_name(value: object, context: Context) -> str:
    """A command by its name, or by an alias or its handler, which become its name. The context has the names of the
    configuration's own commands."""
    if isinstance(value, str) and value in context.get("commands", ()):
        return value
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
HostId = Annotated[str, BeforeValidator(lambda value: host_id() if value == "" else _plain_name(value)), Kind("name")]
CommandName = Annotated[str, BeforeValidator(_command_name, context=True), Kind("command")]
_person = matching(
    r"[UWSCG][A-Z0-9]+|\*", 'a user id (U…), a usergroup id (S…), a channel id (C…, for its members), or "*"'
)
PersonId = Annotated[str, BeforeValidator(_person), Kind("id")]
_channel = (r"[CGD][A-Z0-9]+", "a channel id (C…, at the end of its About tab), not a name")
ChannelId = Annotated[str, BeforeValidator(matching(*_channel)), Kind("channel id")]
OptionalChannel = Annotated[str, BeforeValidator(matching(*_channel, empty=True)), Kind("channel id")]
UserName = Annotated[str, BeforeValidator(matching(r"[^\s:/]+", "the login name of a user"))]
UserId = Annotated[str, BeforeValidator(matching(r"[UW][A-Z0-9]+", "a user id (U…)")), Kind("user id")]

ON_CALL_KEY = "oncall"
ON_CALL = f"{ON_CALL_KEY}:"
"""The beginning of the id of a source that says who is on call. Its members change, like those of a usergroup."""


class OnCallSettings(Section):
    """A source that says who is on call."""

    url: WebUrl = Field(default=SecretUrl(""))
    secret: Secret = Field(default=SecretStr(""))
    command: tuple[Line, ...] = Field(default=())
    cache_minutes: Span = Field(default=5.0)
    timeout_seconds: Annotated[float, BeforeValidator(Number(0.1, 10, unit="seconds"))] = Field(default=3.0)
    fallback: tuple[UserId, ...] = Field(default=())

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
        told = [settings.url.get_secret_value(), settings.secret.get_secret_value(), *map(str, settings.command)]
        told += [str(settings.cache_minutes), str(settings.timeout_seconds), *settings.fallback]
        made = super().__new__(cls, f"{ON_CALL}{hashlib.sha256(repr(told).encode()).hexdigest()[:12]}")
        made.settings = settings
        return made

    @property
    def shown(self) -> str:
        """The address or the program, without what may be secret."""
        url = self.settings.url.get_secret_value()
        return mask_url(url) if url else self.settings.command[0]


def _or_on_call(check: Any) -> Any:  # noqa: ANN401 (validators of any value)
    """The same, or `{oncall: {…}}`."""

    def checked(value: object, context: Context) -> object:
        if isinstance(value, OnCallSource):
            return value
        if not isinstance(value, Mapping):
            return check(value)
        if set(value) != {ON_CALL_KEY}:
            raise Invalid("must be an id, or a section with the one key oncall")
        try:
            return OnCallSource(OnCallSettings.model_validate(value[ON_CALL_KEY], context=context))
        except ValidationError as error:  # the first flaw, with its key: this section is no setting of its own
            flaw = error.flaws[0]
            place = ".".join(map(str, (ON_CALL_KEY, *flaw.place)))
            words = {
                "extra": f"isn't a setting; expected {', '.join(OnCallSettings.model_fields)}",
                "list": f"must be a list such as [a, b], but is {kind_of(flaw.given)}",
                "section": f"must be a section with settings, but is {kind_of(flaw.given)}",
            }
            raise Invalid(f"is invalid: {place} {flaw.text or words.get(flaw.kind, 'has an invalid value')}") from None

    return checked


_target = matching(r"[UWSCGD][A-Z0-9]+", "a user id (U…), a usergroup id (S…) or a channel id (C…)")
EscalationTarget = Annotated[str, BeforeValidator(_or_on_call(_target), context=True), Kind("id")]
ApproverId = Annotated[str, BeforeValidator(_or_on_call(_person), context=True), Kind("id")]
