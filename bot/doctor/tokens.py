"""The check of the tokens without a call to Slack: both are set, and each is of its kind.

No part of a token is shown, nor its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from bot.doctor.slack_queries import COPY_APP_TOKEN, COPY_BOT_TOKEN
from supervisor_core.common.errors import ConfigError
from supervisor_core.config.sections import SecretStr
from supervisor_core.config.slack_credentials import (
    APP_TOKEN,
    BOT_TOKEN,
    FILE_SUFFIX,
    SlackCredentials,
    slack_credentials,
)
from supervisor_core.doctor.checks import CheckResult

NAME = "slack_tokens"
KINDS = (
    ("xoxb-", "a bot token"),
    ("xapp-", "an app-level token"),
    ("xoxp-", "a user token"),
    ("xoxe", "an app configuration token or a refresh token"),
    ("xoxc-", "a browser token"),
    ("xoxd-", "a browser cookie"),
    ("xoxs-", "a browser token"),
)
CORRECT = "Correct it in the .env file beside the configuration, or in the supervisor's environment."
HIDDEN = "…"
QUOTES = ("'", '"', "`", "“", "<")
SWAPPED = ((BOT_TOKEN, APP_TOKEN), (APP_TOKEN, BOT_TOKEN))
WANTED = {BOT_TOKEN: ("xoxb-", COPY_BOT_TOKEN), APP_TOKEN: ("xapp-", COPY_APP_TOKEN)}


def check_tokens(
    environ: Mapping[str, str], folder: Path, *, wanted: bool = False
) -> tuple[CheckResult, SlackCredentials | None]:
    """Look at both tokens, as the daemon would find them; the credentials only where asking Slack makes sense.
    `wanted`: the configuration says what Slack is to be for."""
    written = {name: environ.get(name, "").strip() for name in WANTED}
    trouble = _swapped(written) or next(filter(None, (_written_wrong(*each) for each in written.items())), None)
    if trouble is not None:
        return trouble, None
    try:
        found = slack_credentials(environ, folder=folder)
    except ConfigError as error:
        return CheckResult(NAME, False, error.message, CORRECT), None
    held = {BOT_TOKEN: found.bot_token, APP_TOKEN: found.app_token}
    absent = [name for name, token in held.items() if token is None]
    if len(absent) == len(held):
        empty = [why for name in absent if (why := _empty(name, environ))]
        why = "; ".join(empty) or f"{BOT_TOKEN} and {APP_TOKEN} aren't set"
        if any(name + FILE_SUFFIX in why for name in absent):
            return CheckResult(NAME, False, why, f"{COPY_BOT_TOKEN} {COPY_APP_TOKEN}"), None
        if wanted:
            remedy = f"Set both in {folder / '.env'}, or set `slack: {{enabled: false}}` in the configuration."
            return CheckResult(NAME, False, f"{why}, but Slack is configured", remedy), None
        return CheckResult(NAME, True, f"{why}, so the supervisor runs without Slack"), None
    if absent:
        (name,) = absent
        why = _empty(name, environ) or f"{name} isn't set"
        return CheckResult(NAME, False, f"{why}, but the other token is; Slack needs both", WANTED[name][1]), None
    for name, token in held.items():
        trouble = _written_wrong(name, token.get_secret_value() if token else "")
        if trouble is not None:
            return trouble, None
    return CheckResult(NAME, True, f"{BOT_TOKEN} and {APP_TOKEN} are set"), found


def secret_values(credentials: SlackCredentials) -> list[str]:
    """The values that must not be seen."""
    tokens: tuple[SecretStr | None, ...] = (credentials.bot_token, credentials.app_token)
    return [token.get_secret_value() for token in tokens if token is not None]


def hide_secrets(secrets: Iterable[str], checks: list[CheckResult]) -> list[CheckResult]:
    """The same results with these secrets masked, wherever they came from."""
    for secret in secrets:
        checks = [
            replace(check, message=check.message.replace(secret, HIDDEN), remedy=check.remedy.replace(secret, HIDDEN))
            for check in checks
        ]
    return checks


def _swapped(written: Mapping[str, str]) -> CheckResult | None:
    if not all(written[name].startswith(WANTED[other][0]) for name, other in SWAPPED):
        return None
    words = f"the tokens are swapped: {BOT_TOKEN} holds the app-level token, {APP_TOKEN} the bot token"
    return CheckResult(NAME, False, words, f"Swap them. {CORRECT}")


def _written_wrong(name: str, value: str) -> CheckResult | None:
    """The failed result of a value that isn't a token of its kind."""
    prefix, copy = WANTED[name]
    if not value or value.startswith(prefix):
        return None
    if value.startswith(QUOTES):
        remedy = f"Remove the quotes where {name} is set."
        return CheckResult(NAME, False, f"{name} has quotes around it that are part of the value", remedy)
    if value.lower().startswith("bearer "):
        return CheckResult(
            NAME, False, f"{name} starts with the word Bearer", "Remove the word and keep only the token."
        )
    kind = next((words for start, words in KINDS if value.startswith(start)), "something that isn't a Slack token")
    return CheckResult(NAME, False, f"{name} holds {kind}; it must start with {prefix}", copy)


def _empty(name: str, environ: Mapping[str, str]) -> str:
    if environ.get(name + FILE_SUFFIX):
        return f"the file in {name}{FILE_SUFFIX} is empty"
    return f"{name} is empty" if name in environ else ""
