"""Slack's tokens, out of the environment or out of files that it names; never out of a configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from supervisor_core.domain.errors import ConfigError

BOT_TOKEN = "SLACK_BOT_TOKEN"  # noqa: S105 (a variable's name)
APP_TOKEN = "SLACK_APP_TOKEN"  # noqa: S105
API_URL = "SLACK_API_URL"
FILE_SUFFIX = "_FILE"
SLACK_ITSELF = "https://slack.com/api/"
MAX_TOKEN_FILE = 10_000  # bytes; a token has about a hundred


@dataclass(frozen=True, slots=True)
class SlackCredentials:
    """What it takes to speak with Slack. A token that is not set is None."""

    bot_token: SecretStr | None = None
    app_token: SecretStr | None = None
    api_url: str = SLACK_ITSELF


def slack_credentials(environ: Mapping[str, str] | None = None, *, folder: Path | None = None) -> SlackCredentials:
    """The tokens and the address of Slack; `ConfigError` for what can't be right.

    The name of a file that holds a token is relative to `folder`, else to where the program was started.
    """
    given = os.environ if environ is None else environ
    return SlackCredentials(
        bot_token=_token(given, BOT_TOKEN, folder, other="xapp-"),
        app_token=_token(given, APP_TOKEN, folder, other="xoxb-"),
        api_url=_api_url(given.get(API_URL, "")),
    )


def _token(environ: Mapping[str, str], name: str, folder: Path | None, *, other: str) -> SecretStr | None:
    direct, file = environ.get(name, ""), environ.get(name + FILE_SUFFIX, "")
    if direct and file:
        raise ConfigError(f"Both {name} and {name}{FILE_SUFFIX} are set; only one of them can be right.")
    token = _read(name + FILE_SUFFIX, (folder or Path()) / file) if file else direct.strip()
    if not token:
        return None
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{name} is no token: it has characters that no token has.")
    if token.startswith(other):
        raise ConfigError(f"{name} holds the other token, which begins with {other}; are the two exchanged?")
    return SecretStr(token)


def _read(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TOKEN_FILE + 1)
        if len(content) > MAX_TOKEN_FILE:
            raise ConfigError(f"{name} names a file that is too large to hold a token.")
        return content.decode().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"{name} names a file that can't be read: {reason}.") from None


def _api_url(url: str) -> str:
    if not url:
        return SLACK_ITSELF
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and url.endswith("/api/")
    except ValueError:
        fine = False
    if not fine or not url.isprintable() or " " in url:
        raise ConfigError(f"{API_URL} must be an address that ends in /api/, such as {SLACK_ITSELF}")
    return url
