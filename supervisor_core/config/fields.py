"""The types of settings. Each says what it expects, and never quotes a secret.

Addresses may hold passwords: they are secrets that show no more than where they lead.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from supervisor_core.common.text import nearest
from supervisor_core.config.document import Path as SettingPath
from supervisor_core.config.raw import absolute
from supervisor_core.config.sections import (
    Invalid,
    Reader,
    SecretStr,
    checked,
    free_text,
    kind_of,
    line,
    number,
    pattern,
    resolved,
)

WEEK = 7 * 24 * 3600  # seconds: longer than anything here may take
MONTH = 31 * 24 * 60  # minutes
TICK = 0.01  # seconds: a loop with a shorter pause would be a busy one
LAST_PORT = 65_535


def absolute_path(value: object, reader: Reader, _path: SettingPath = ()) -> Path:
    text = line(str(value) if isinstance(value, Path) else value)
    if not text:
        raise Invalid("must be a path, but is empty")
    return Path(absolute(reader.folder, text))


def optional_path(value: object, reader: Reader, _path: SettingPath) -> Path | None:
    return None if value in (None, "") else absolute_path(value, reader)


def _check_port(value: str) -> str:
    if value and int(value.rpartition(":")[2]) > LAST_PORT:
        raise Invalid("must have a port from 0 to 65535")
    return value


def _as_written(value: Any) -> SecretStr:  # noqa: ANN401
    """Text, or a number as it was written: an environment knows no numbers."""
    return SecretStr(free_text(getattr(value, "text", value)))


FreeText = Annotated[str, checked(free_text)]
Written = Annotated[SecretStr, checked(_as_written)]
Seconds = Annotated[float, number(0, WEEK, "seconds")]
Pause = Annotated[float, number(TICK, WEEK, "seconds")]
Minutes = Annotated[float, number(0, MONTH, "minutes")]
Span = Annotated[float, number(TICK, MONTH, "minutes")]
FilePath = Annotated[Path, resolved(absolute_path, "path")]
OptionalPath = Annotated[Path | None, resolved(optional_path, "path")]
_HOST_PORT = (
    r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):[0-9]{1,5}",  # the host of IPv6 in brackets
    "a host and a port such as 127.0.0.1:9464",
    "host:port",
)
HostPort = Annotated[str, pattern(*_HOST_PORT), checked(_check_port)]
Bind = Annotated[str, pattern(*_HOST_PORT, empty=True), checked(_check_port)]

DISTRIBUTION = "supervisor-chatops"
DIALECTS = {
    "sqlite": ("", ""),
    "mysql+pymysql": ("pymysql", "mysql"),
    "postgresql+psycopg": ("psycopg", "postgres"),
}
"""The part of a URL before `://`, the module that speaks it, and the extra that installs it."""

_USUAL = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "postgres": "postgresql+psycopg"}
_USUAL |= {"postgresql": "postgresql+psycopg"}
_SQLITE = re.compile(r"sqlite:///([^?]+)(\?.*)?")
_SOCKET = {"mysql+pymysql": "unix_socket", "postgresql+psycopg": "host"}
"""The parameter of a URL that names a socket on this machine; then it needs no host."""


class SecretUrl(SecretStr):
    """An address. Shown without user, password, path and query: any of these may be a secret."""

    def __str__(self) -> str:
        return mask_url(self.get_secret_value())


NO_URL, NO_SECRET = SecretUrl(""), SecretStr("")


def mask_url(url: str) -> str:
    """An address that may be shown: its protocol and host, and nothing else."""
    if not url:
        return ""
    scheme, separator, rest = url.partition("://")
    if not separator or not re.fullmatch(r"[a-z0-9+]+", scheme):
        return "…"
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…" if re.fullmatch(r"[A-Za-z0-9.:\[\]-]*", host) else f"{scheme}://…"


def require_driver(module: str, extra: str, what: str) -> None:
    """Refuse a setting whose driver isn't installed, without importing it."""
    try:
        installed = find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        installed = False
    if not installed:
        raise Invalid(f"needs {what}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'")


def url_text(value: object) -> str:
    if isinstance(value, SecretUrl):
        value = value.get_secret_value()
    if not isinstance(value, str):
        raise Invalid(f"must be a URL in quotes, but is {kind_of(value)}")
    if not value.isprintable() or " " in value:
        raise Invalid("must be a URL without spaces")
    return str(value)


def check_url(text: str, schemes: tuple[str, ...], example: str) -> SecretUrl:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise Invalid(f"must be a URL such as {example}")
    return SecretUrl(text)


def web_url(value: object) -> SecretUrl:
    text = url_text(value)
    return check_url(text, ("http", "https"), "https://example.org/path") if text else NO_URL


def _probe_url(value: object) -> SecretUrl:
    return check_url(url_text(value), ("http", "https"), "http://127.0.0.1:8080/health")


def _fleet_url(value: object) -> SecretUrl:
    text = url_text(value)
    if text:
        for part in text.split(","):
            check_url(part, ("nats", "tls", "ws", "wss"), "nats://hub.example.org:4222, or several separated by commas")
        require_driver("nats", "fleet", "the driver for NATS")
    return SecretUrl(text)


def _database_url(value: object, reader: Reader, _path: SettingPath) -> SecretUrl:
    text = url_text(value)
    if not text:
        return NO_URL
    dialect, separator, _ = text.partition("://")
    if not separator or dialect not in DIALECTS:
        near = _USUAL.get(dialect) or (nearest(dialect, DIALECTS) if separator else None)
        meant = f"; did you mean {near}://?" if near else ""
        raise Invalid(f"must begin with one of {', '.join(f'{name}://' for name in DIALECTS)}{meant}")
    if dialect == "sqlite":
        match = _SQLITE.fullmatch(text)
        if match is None or match[1] == ":memory:":
            raise Invalid("must name a file, such as sqlite:///var/fleet.db; an in-memory database isn't kept")
        path = match[1] if match[1].startswith("file:") else absolute(reader.folder, match[1])
        return SecretUrl(f"sqlite:///{path}{match[2] or ''}")
    try:
        parts = urlsplit(text)
        sockets = [] if parts.netloc.rpartition("@")[2] else parse_qs(parts.query).get(_SOCKET[dialect], [])
    except ValueError:
        sockets = []
    if not (len(sockets) == 1 and sockets[0].startswith("/")):
        check_url(text, (dialect,), f"{dialect}://user:password@host/database")
    module, extra = DIALECTS[dialect]
    require_driver(module, extra, f"the driver for {dialect}")
    return SecretUrl(text)


DatabaseUrl = Annotated[SecretUrl, resolved(_database_url, "URL")]
FleetUrl = Annotated[SecretUrl, checked(_fleet_url, "URL")]
WebUrl = Annotated[SecretUrl, checked(web_url, "URL")]
ProbeUrl = Annotated[SecretUrl, checked(_probe_url, "URL")]
