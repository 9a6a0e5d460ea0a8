"""The types of settings. Each says what it expects, and never quotes a secret.

Addresses may hold passwords: they are secrets that show no more than where they lead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from supervisor_core.common.sections import AfterValidator, BeforeValidator, Context, Invalid, SecretStr
from supervisor_core.common.text import nearest
from supervisor_core.config.document import scalar
from supervisor_core.config.raw import Substituted, absolute

WEEK = 7 * 24 * 3600  # seconds: longer than anything here may take
MONTH = 31 * 24 * 60  # minutes
TICK = 0.01  # seconds: a loop with a shorter pause would be a busy one
LONGEST_QUOTE = 40  # characters of a value that a message repeats
LAST_PORT = 65_535
MAX_LINE = 4096  # characters: no name, path or address is longer


def kind_of(value: object) -> str:
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        ((int, float), "a number"),
        (str, "text"),
        ((list, tuple), "a list"),
        (Mapping, "a section"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "empty")


def quotable(value: object) -> str:
    """A value as a message may repeat it, after a space: short, printable, and not out of a variable."""
    if not isinstance(value, str) or isinstance(value, Substituted) or not value.isprintable():
        return ""
    return f" {value!r}" if 0 < len(value) <= LONGEST_QUOTE else ""


def _free_text(value: object) -> str:
    if not isinstance(value, str):
        hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
        hint = '; write "" for an empty text' if value is None else hint
        raise Invalid(f"must be text, but is {kind_of(value)}{hint}")
    if "\0" in value:
        raise Invalid("must not contain a NUL character")
    return str(value)


def _line(value: object) -> str:
    text = _free_text(value).rstrip("\n")
    if len(text) > MAX_LINE or any(not character.isprintable() for character in text):
        raise Invalid("must be one line of printable text")
    return text


def _as_written(value: object) -> object:
    """Text, or a number as it was written: an environment knows no numbers."""
    text = getattr(value, "text", None)
    return text if isinstance(text, str) else _secret(value)


def _secret(value: object) -> object:
    return value if isinstance(value, SecretStr) else _free_text(value)


def _meant(value: object) -> object:
    """The number or truth value that came out of a variable without quotes; any other value as it is."""
    return scalar(value) if isinstance(value, Substituted) and value.plain else value


def _flag(value: object) -> bool:
    meant = _meant(value)
    if not isinstance(meant, bool):
        raise Invalid(f"must be true or false, but is {kind_of(value)}")
    return meant


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a setting in a word or two, for the reference. Goes into its annotation."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A validator for numbers between two bounds, both included."""

    low: float
    high: float
    whole: bool = False
    unit: str = ""

    def __call__(self, value: object) -> float:
        expected = f"must be a {'whole ' if self.whole else ''}number{self.unit and f' of {self.unit}'}"
        meant = _meant(value)
        if isinstance(meant, bool) or not isinstance(meant, int | float):
            raise Invalid(f"{expected}, but is {kind_of(value)}")
        if not math.isfinite(meant) or not self.low <= meant <= self.high:
            raise Invalid(f"{expected} from {self.low:g} to {self.high:.12g}")
        if not self.whole:
            return float(meant)
        if meant != int(meant):
            raise Invalid(f"{expected}, without a fraction")
        return int(meant)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A validator for one of a few words; with `fold` in either case, and kept as it is named here."""

    names: tuple[str, ...]
    fold: bool = False

    def __call__(self, value: object) -> str:
        text = _line(value)
        found = next(
            (name for name in self.names if name == text or (self.fold and name.casefold() == text.casefold())), None
        )
        if found is None:
            near = nearest(text, self.names) if quotable(value) else None
            meant = f"; did you mean {near}?" if near else ""
            raise Invalid(f"must be one of {', '.join(self.names)}, not{quotable(value) or ' this'}{meant}")
        return found


def matching(pattern: str, expected: str, *, empty: bool = False) -> Callable[[object], str]:
    """A validator for one line of a certain shape; `expected` completes the words "must be"."""
    shape = re.compile(pattern)

    def check(value: object) -> str:
        text = _line(value)
        if not (empty and not text) and not shape.fullmatch(text):
            raise Invalid(f"must be {expected}" + (", or empty" if empty else ""))
        return text

    return check


def _path(value: object, context: Context) -> Path:
    if isinstance(value, Path):
        value = str(value)
    text = _line(value)
    if not text:
        raise Invalid("must be a path, but is empty")
    return Path(absolute(folder_of(context), text))


def folder_of(context: Context) -> Path:
    """The folder of the configuration file, where relative paths start; the validation's context has it."""
    folder: Path = context.get("folder", Path())
    return folder


def host_and_port(value: object) -> str:
    """A `host:port`; the host of IPv6 in brackets."""
    text = matching(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):[0-9]{1,5}", "a host and a port such as 127.0.0.1:9464")(
        value
    )
    if int(text.rpartition(":")[2]) > LAST_PORT:
        raise Invalid("must have a port from 0 to 65535")
    return text


FreeText = Annotated[str, BeforeValidator(_free_text)]
Line = Annotated[str, BeforeValidator(_line)]
Written = Annotated[SecretStr, BeforeValidator(_as_written)]
Secret = Annotated[SecretStr, BeforeValidator(_secret)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Seconds = Annotated[float, BeforeValidator(Number(0, WEEK, unit="seconds"))]
Pause = Annotated[float, BeforeValidator(Number(TICK, WEEK, unit="seconds"))]
Minutes = Annotated[float, BeforeValidator(Number(0, MONTH, unit="minutes"))]
Span = Annotated[float, BeforeValidator(Number(TICK, MONTH, unit="minutes"))]
FilePath = Annotated[Path, BeforeValidator(_path, context=True), Kind("path")]
OptionalPath = Annotated[
    Path | None,
    BeforeValidator(lambda value, context: None if value in (None, "") else _path(value, context), context=True),
    Kind("path"),
]
HostPort = Annotated[str, BeforeValidator(host_and_port), Kind("host:port")]
Bind = Annotated[str, BeforeValidator(lambda value: "" if value == "" else host_and_port(value)), Kind("host:port")]
NONE_AS_EMPTY = BeforeValidator(lambda value: {} if value is None else value)
Frozen = AfterValidator(lambda values: MappingProxyType(dict(values)))

DISTRIBUTION = "supervisor-chatops"
# What goes before `://`, the module that speaks it, and the extra that installs it.
DIALECTS = {
    "sqlite": ("", ""),
    "mysql+pymysql": ("pymysql", "mysql"),
    "postgresql+psycopg": ("psycopg", "postgres"),
}
_USUAL = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "postgres": "postgresql+psycopg"}
_USUAL |= {"postgresql": "postgresql+psycopg"}
_SQLITE = re.compile(r"sqlite:///([^?]+)(\?.*)?")
_SOCKET = {"mysql+pymysql": "unix_socket", "postgresql+psycopg": "host"}
"""The parameter of an address that names a socket on this machine; then it needs no host."""
_NATS = ("nats", "tls", "ws", "wss")
_WEB = ("http", "https")


class SecretUrl(SecretStr):
    """An address. Shown without user, password, path and query: any of these may be a secret."""

    def __str__(self) -> str:
        return mask_url(self.get_secret_value())


def mask_url(url: str) -> str:
    """An address that may be shown: what speaks to whom, and nothing else."""
    if not url:
        return ""
    scheme, separator, rest = url.partition("://")
    if not separator or not re.fullmatch(r"[a-z0-9+]+", scheme):
        return "…"
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…" if re.fullmatch(r"[A-Za-z0-9.:\[\]-]*", host) else f"{scheme}://…"


def installed(module: str) -> bool:
    """True where a driver is installed, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def _text(value: object) -> str:
    if isinstance(value, SecretUrl):
        value = value.get_secret_value()
    if not isinstance(value, str):
        raise Invalid(f"must be a URL in quotes, but is {kind_of(value)}")
    if any(not character.isprintable() or character == " " for character in value):
        raise Invalid("must be a URL without spaces")
    return str(value)


def _check_url(text: str, schemes: tuple[str, ...], example: str) -> str:
    try:
        parts = urlsplit(text)
        fine = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise Invalid(f"must be a URL such as {example}")
    return text


def web_url(value: object) -> str:
    text = _text(value)
    return text and _check_url(text, _WEB, "https://example.org/path")


def probe_url(value: object) -> str:
    return _check_url(_text(value), _WEB, "http://127.0.0.1:8080/health")


def _fleet_url(value: object) -> str:
    text = _text(value)
    if not text:
        return text
    for part in text.split(","):
        _check_url(part, _NATS, "nats://hub.example.org:4222, or several separated by commas")
    _require_driver("nats", "fleet", "NATS")
    return text


def _database_url(value: object, context: Context) -> str:
    text = _text(value)
    if not text:
        return text
    dialect, separator, _ = text.partition("://")
    if not separator or dialect not in DIALECTS:
        near = _USUAL.get(dialect) or (nearest(dialect, DIALECTS) if separator else None)
        meant = f"; did you mean {near}://?" if near else ""
        raise Invalid(f"must begin with one of {', '.join(f'{name}://' for name in DIALECTS)}{meant}")
    if dialect == "sqlite":
        match = _SQLITE.fullmatch(text)
        if match is None or match[1] == ":memory:":
            raise Invalid("must name a file, such as sqlite:///var/fleet.db; an in-memory database isn't kept")
        path = match[1] if match[1].startswith("file:") else absolute(folder_of(context), match[1])
        return f"sqlite:///{path}{match[2] or ''}"
    if not _is_by_socket(text):
        _check_url(text, (dialect,), f"{dialect}://user:password@host/database")
    module, extra = DIALECTS[dialect]
    _require_driver(module, extra, dialect)
    return text


def _is_by_socket(text: str) -> bool:
    """True for an address with a socket in place of a host."""
    try:
        parts = urlsplit(text)
        if parts.netloc.rpartition("@")[2]:
            return False
        (path,) = parse_qs(parts.query).get(_SOCKET[parts.scheme], [""])
    except ValueError:  # several of them, or no address at all
        return False
    return path.startswith("/")


def _require_driver(module: str, extra: str, what: str) -> None:
    if not installed(module):
        raise Invalid(f"needs the driver for {what}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'")


DatabaseUrl = Annotated[SecretUrl, BeforeValidator(_database_url, context=True)]
FleetUrl = Annotated[SecretUrl, BeforeValidator(_fleet_url)]
WebUrl = Annotated[SecretUrl, BeforeValidator(web_url)]
ProbeUrl = Annotated[SecretUrl, BeforeValidator(probe_url)]
