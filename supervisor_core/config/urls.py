"""Addresses, which may hold passwords: kept as secrets that show no more than where they lead."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from pydantic import BeforeValidator, Secret, ValidationInfo

from supervisor_core.config.fields import folder_of, kind_of, wrong
from supervisor_core.config.raw import absolute
from supervisor_core.domain.nearest import nearest

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


class SecretUrl(Secret[str]):
    """An address. Shown without user, password, path and query: any of these may be a secret."""

    def _display(self) -> str:
        return masked(self.get_secret_value())

    def __bool__(self) -> bool:
        return bool(self.get_secret_value())


def masked(url: str) -> str:
    """An address that may be shown: what speaks to whom, and nothing else."""
    if not url:
        return ""
    scheme, separator, rest = url.partition("://")
    if not separator or not re.fullmatch(r"[a-z0-9+]+", scheme):
        return "…"
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…" if re.fullmatch(r"[A-Za-z0-9.:\[\]-]*", host) else f"{scheme}://…"


def installed(module: str) -> bool:
    """Whether a driver is there, without importing it."""
    return find_spec(module) is not None


def _text(value: object) -> str:
    if isinstance(value, SecretUrl):
        value = value.get_secret_value()
    if not isinstance(value, str):
        raise wrong(f"must be an address in quotes, but is {kind_of(value)}")
    if any(not character.isprintable() or character == " " for character in value):
        raise wrong("must be an address without spaces")
    return str(value)


def _checked(text: str, schemes: tuple[str, ...], example: str) -> str:
    try:
        parts = urlsplit(text)
        fine = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise wrong(f"must be an address such as {example}")
    return text


def web_url(value: object) -> str:
    """An address of the web, or nothing."""
    text = _text(value)
    return text and _checked(text, _WEB, "https://example.org/path")


def probe_url(value: object) -> str:
    """An address of the web."""
    return _checked(_text(value), _WEB, "http://127.0.0.1:8080/health")


def _fleet_url(value: object) -> str:
    text = _text(value)
    if not text:
        return text
    for part in text.split(","):
        _checked(part, _NATS, "nats://hub.example.org:4222, or several of them with commas between")
    _need("nats", "fleet", "NATS")
    return text


def _database_url(value: object, info: ValidationInfo) -> str:
    text = _text(value)
    if not text:
        return text
    dialect, separator, _ = text.partition("://")
    if not separator or dialect not in DIALECTS:
        near = _USUAL.get(dialect) or (nearest(dialect, DIALECTS) if separator else None)
        meant = f"; did you mean {near}://?" if near else ""
        raise wrong(f"must begin with one of {', '.join(f'{name}://' for name in DIALECTS)}{meant}")
    if dialect == "sqlite":
        return _sqlite(text, info)
    if not _is_by_socket(text):
        _checked(text, (dialect,), f"{dialect}://user:password@host/database")
    module, extra = DIALECTS[dialect]
    _need(module, extra, dialect)
    return text


def _is_by_socket(text: str) -> bool:
    """Whether an address names a socket in place of a host."""
    try:
        parts = urlsplit(text)
        if parts.netloc.rpartition("@")[2]:
            return False
        (path,) = parse_qs(parts.query).get(_SOCKET[parts.scheme], [""])
    except ValueError:  # several of them, or no address at all
        return False
    return path.startswith("/")


def _need(module: str, extra: str, what: str) -> None:
    if not installed(module):
        raise wrong(f"needs the driver for {what}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'")


def _sqlite(text: str, info: ValidationInfo) -> str:
    match = _SQLITE.fullmatch(text)
    if match is None or match[1] == ":memory:":
        raise wrong("must name a file, as in sqlite:///var/fleet.db; what is only in memory is lost")
    path = match[1] if match[1].startswith("file:") else absolute(folder_of(info), match[1])
    return f"sqlite:///{path}{match[2] or ''}"


DatabaseUrl = Annotated[SecretUrl, BeforeValidator(_database_url)]
FleetUrl = Annotated[SecretUrl, BeforeValidator(_fleet_url)]
WebUrl = Annotated[SecretUrl, BeforeValidator(web_url)]
ProbeUrl = Annotated[SecretUrl, BeforeValidator(probe_url)]
