"""Slack's tokens, from the environment or files it names, never from a configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.fields import (
    check_url,
    url_text,
)
from supervisor_core.config.sections import Invalid, SecretStr

BOT_TOKEN = "SLACK_BOT_TOKEN"  # noqa: S105 (a variable's name)
APP_TOKEN = "SLACK_APP_TOKEN"  # noqa: S105
API_URL = "SLACK_API_URL"
FILE_SUFFIX = "_FILE"
SLACK_ITSELF = "https://slack.com/api/"
MAX_TOKEN_FILE = 10_000  # bytes; a token has about a hundred


@dataclass(frozen=True, slots=True)
class SlackCredentials:
    """Slack's tokens and address. A token that isn't set is None."""

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
        raise ConfigError(f"Both {name} and {name}{FILE_SUFFIX} are set. Set only one.")
    token = direct.strip()
    if file:
        try:
            with ((folder or Path()) / file).open("rb") as opened:
                content = opened.read(MAX_TOKEN_FILE + 1)
            token = content.decode().strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise ConfigError(f"The file in {name}{FILE_SUFFIX} can't be read: {reason}.") from None
        if len(content) > MAX_TOKEN_FILE:
            raise ConfigError(f"{name}{FILE_SUFFIX} names a file that's too large for a token.")
    if not token:
        return None
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{name} isn't a Slack token: it has invalid characters.")
    if token.startswith(other):
        raise ConfigError(f"{name} holds the other token, which starts with {other}. Are the two swapped?")
    return SecretStr(token)


def _api_url(url: str) -> str:
    try:
        if not url or (check_url(url_text(url), ("http", "https"), "") and url.endswith("/api/")):
            return url or SLACK_ITSELF
    except Invalid:
        pass
    raise ConfigError(f"{API_URL} must be a URL that ends in /api/, such as {SLACK_ITSELF}")
