"""The section about Slack, and its tokens: out of the environment or files it names, never out of a configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.fields import Minutes, Span, check_url, url_text
from supervisor_core.config.names import ApproverId, ChannelId, CommandName, OptionalChannel, PersonId, UserId, UserName
from supervisor_core.config.sections import EMPTY, Invalid, SecretStr, Section, number


class AccessSettings(Section, frozen=True):
    """Roles. Lists of users (`U…`), usergroups (`S…`) and channels (`C…`, for their members); `"*"`: all full members.

    Guests and people of other workspaces count only by their own user id.
    """

    viewers: tuple[PersonId, ...] = ("*",)
    """People who can look, but not act."""
    operators: tuple[PersonId, ...] = ()
    """People who can run commands. They are viewers, too."""
    approvers: tuple[ApproverId, ...] = ()
    """People who can approve commands, also as [`{oncall: {…}}`](../how-to/find-who-is-on-call.md). They are viewers,
    too. Guests can't approve."""
    commands: Mapping[CommandName, tuple[PersonId, ...]] = EMPTY
    """Commands for certain people only, whatever their roles: `{restart: [U0ANNA, S0OPS]}`. Such a list grants nothing
    else."""
    people: Mapping[UserName, UserId] = EMPTY
    """Slack users of people who also work in this host's shell: `{anna: U0ANNA}`. Nobody approves in one what they
    requested in the other."""


class ApprovalSettings(Section, frozen=True):
    """Commands that need an approval."""

    required_for: tuple[CommandName, ...] = ("rollback", "undo", "update", "update-deps")
    """Commands that need an approval."""
    doors: tuple[Literal["slack", "schedule", "cli", "flag"], ...] = ("slack", "schedule")
    """Sources from which they need it."""
    votes: Annotated[int, number(1, 100)] = 1
    """Number of approvers who must agree."""
    self_approval: bool = False
    """Let the requester approve."""
    expires_minutes: Span = 15.0
    """Time until an undecided approval expires."""

    def check_values(self) -> None:
        for command in self.required_for:
            if self.required_for.count(command) > 1:
                raise Invalid(f"names {command} twice (aliases and handlers count as names)", "required_for")


DIRECT = ("D", "U", "W")
"""The first letters of the ids of direct messages and users, where only one person reads."""


class SlackSettings(Section, frozen=True):
    """The bot. Channels are named by their ids. The tokens are [environment variables](#environment-variables)."""

    enabled: bool = True
    """Connect to Slack."""
    alert_channel: OptionalChannel = ""
    """Channel for alerts, and for commands from the Home tab."""
    approval_channel: OptionalChannel = ""
    """Channel for approvals. Empty: the channel of the command; for a direct message, `alert_channel`."""
    fallback_channel: OptionalChannel = ""
    """Channel for messages that can't be posted elsewhere."""
    announce: bool = True
    """Post a message in the alert channel for commands that didn't come from Slack."""
    welcome: bool = True
    """Post one introduction in the alert channel, and in each channel that the bot is invited to."""
    channels: tuple[ChannelId, ...] = ()
    """Channels in which commands and votes are accepted. Empty: all."""
    access: AccessSettings = AccessSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    bake_minutes: Minutes = 10.0
    """Duration of the [watch](../how-to/change-code-safely.md#watched-afterwards) over workers after a code change. 0:
    none."""

    def asks_in(self, card: str) -> str:
        """Return the channel for the approval of a command posted in this channel; empty if the message itself asks.

        In a direct message no approver would see it."""
        channel = self.approval_channel or (self.alert_channel if card.startswith(DIRECT) else "")
        return "" if channel == card else channel


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
