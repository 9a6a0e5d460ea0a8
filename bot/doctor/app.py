"""The checks of the app itself: its tokens and scopes, its connection, and its interactivity.

Only a click that came proves that interactivity is on: reading the app's manifest takes a token of its author.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from aiohttp import ClientError, ClientSession

from bot import scopes
from bot.doctor.slack_queries import (
    CALL_SECONDS,
    COPY_APP_TOKEN,
    COPY_BOT_TOKEN,
    NEW_APP_TOKEN,
    NEW_BOT_TOKEN,
    REACH,
    SETTINGS,
    SOCKET_MODE_ON,
    SlackQueries,
    SlackRefusalError,
    SlackUnreachableError,
)
from bot.inbound.connection import Connection, Envelope
from bot.inbound.identity import IN_THE_WORKSPACE, ORG_WIDE, is_org_wide
from bot.outbound.slack_errors import failure_text
from supervisor_core.common.service import RUNNING
from supervisor_core.common.service_names import CHAT
from supervisor_core.common.times import to_text
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.doctor.daemon import DaemonState
from supervisor_core.doctor.host import compare_clock
from supervisor_core.host.network import Network
from supervisor_core.storage.ledger_file import envelope_times

BOT, SCOPES, APP, CONNECTION = "slack_bot_token", "slack_scopes", "slack_app_token", "slack_connection"
NOT_LOOKED = "so channels and people aren't checked"
UNINSTALLED = frozenset({"account_inactive", "app_not_installed", "token_revoked", "token_expired"})
HEALTHY, DISABLED = "healthy", "disabled"
COUNTED = (
    "A recently crashed one may still be counted for some hours; a new app-level token ends that "
    f"({SETTINGS} → Basic Information)."
)


@dataclass(frozen=True, slots=True)
class BotIdentity:
    user: str
    team_id: str
    bot_id: str
    enterprise_id: str = ""
    """The Enterprise organization of the workspace."""


async def check_bot_token(asking: SlackQueries) -> tuple[BotIdentity | None, list[CheckResult]]:
    """The bot's identity and scopes, and the clock, which is compared with this first answer."""
    asked = datetime.now(UTC)
    try:
        answer = await asking(asking.client.auth_test)
    except SlackRefusalError as error:
        return None, [
            compare_clock(str(error.headers.get("Date") or ""), asked, datetime.now(UTC)),
            CheckResult(
                BOT,
                False,
                f"Slack rejects the bot token: {error}; {NOT_LOOKED}",
                NEW_BOT_TOKEN if error.word in UNINSTALLED else COPY_BOT_TOKEN,
            ),
        ]
    time = compare_clock(str(answer.headers.get("Date") or ""), asked, datetime.now(UTC))
    if not answer.get("bot_id"):
        message = f"this is a user token ({answer['user']}), not a bot token; {NOT_LOOKED}"
        return None, [time, CheckResult(BOT, False, message, COPY_BOT_TOKEN)]
    if is_org_wide(answer.data if isinstance(answer.data, dict) else {}):
        message = f"{ORG_WIDE[0].lower()}{ORG_WIDE[1:]}; {NOT_LOOKED}"
        return None, [time, CheckResult(BOT, False, message, IN_THE_WORKSPACE)]
    enterprise_id = str(answer.get("enterprise_id") or "")
    me = BotIdentity(str(answer["user"]), str(answer["team_id"]), str(answer["bot_id"]), enterprise_id)
    known = CheckResult(BOT, True, f"@{me.user} in the workspace {answer.get('team')} ({me.team_id})")
    return me, [time, known, check_scopes(str(answer.headers.get("X-OAuth-Scopes") or ""))]


def check_scopes(header: str) -> CheckResult:
    """Compare the token's scopes, which Slack names with each answer, with those that are needed."""
    if not header.strip():
        return CheckResult(SCOPES, True, "not checked: Slack doesn't list the scopes of this token")
    lacking = scopes.missing([scope.strip() for scope in header.split(",")])
    required = [need for need in lacking if not need.optional]
    if required:
        without = "; ".join(f"{need.scope} ({need.what})" for need in required)
        names = ", ".join(need.scope for need in required)
        remedy = (
            f"Add {names} ({SETTINGS} → OAuth & Permissions → Scopes → Bot Token Scopes), or paste manifest.yml "
            "again (App Manifest). Then Install App → Reinstall."
        )
        return CheckResult(SCOPES, False, f"missing: {without}", remedy)
    if lacking:
        names = ", ".join(need.scope for need in lacking)
        reasons = "; ".join(dict.fromkeys(need.what for need in lacking))
        return CheckResult(SCOPES, True, f"all required scopes; missing optional ones: {names} ({reasons})")
    return CheckResult(SCOPES, True, "all required and optional scopes")


async def check_app_token(asking: SlackQueries, token: str) -> tuple[str, CheckResult]:
    """The address of a connection, and whether the token gives one. Nothing is opened yet."""
    try:
        answer = await asking(asking.client.apps_connections_open, app_token=token)
    except SlackRefusalError as error:
        return "", CheckResult(APP, False, *_no_connection(error))
    except SlackUnreachableError as error:
        if asking.away:
            raise
        return "", CheckResult(
            APP, False, f"not checked: {error}", error.remedy
        )  # Slack grants few connections a minute
    return str(answer["url"]), CheckResult(APP, True, "valid, and Socket Mode is on")


async def check_same_app(asking: SlackQueries, me: BotIdentity, url: str) -> CheckResult | None:
    """Fail where the two tokens are of different apps; None where they match or where it isn't known."""
    try:
        bot = (await asking(asking.client.bots_info, bot=me.bot_id))["bot"]
    except SlackRefusalError:
        return None
    app_id = str(bot.get("app_id") or "")
    theirs = next(iter(parse_qs(urlsplit(url).query).get("app_id", ())), "")
    if not app_id or not theirs or theirs == app_id:
        return None
    message = f"the tokens belong to different apps: the bot token to {app_id}, the app-level token to {theirs}"
    return CheckResult(APP, False, message, COPY_APP_TOKEN)


async def check_connection(url: str, seen: DaemonState, network: Network) -> CheckResult:
    """The connections that use this token, counted by the daemon where one runs, else by a short connection of ours.

    Beside a daemon none is opened: Slack would send it some of the commands, and they'd be lost."""
    if seen.state == "unresponsive":
        return CheckResult(CONNECTION, True, "not checked: a daemon may hold it, but doesn't respond")
    if seen.state == "running":
        return _of_daemon(seen.service(CHAT))
    try:
        others = await _others(url, network)
    except (ClientError, OSError, TimeoutError) as error:
        return CheckResult(CONNECTION, False, f"can't open the WebSocket: {failure_text(error)}", REACH)
    if others > 0:
        number = "another connection" if others == 1 else f"{others} other connections"
        message = f"the app has {number}: another process uses the same token and receives commands"
        remedy = f"Stop the other supervisor, or give each its own app. {COUNTED}"
        return CheckResult(CONNECTION, False, message, remedy)
    return CheckResult(CONNECTION, True, "works, and no other process is connected with this token now")


def _of_daemon(service: Mapping[str, object]) -> CheckResult:
    state, reason = service.get("state"), str(service.get("reason") or "no reason given")
    if state == DISABLED:
        remedy = "Run: supervisor daemon restart."
        return CheckResult(CONNECTION, False, f"the daemon runs without Slack: {reason}", remedy)
    if service.get("health") == HEALTHY and reason == RUNNING:
        return CheckResult(CONNECTION, True, "the daemon is connected")
    error = f" ({service['last_error']})" if service.get("last_error") else ""
    remedy = f"If another process is named, stop it. {COUNTED} Otherwise see the other checks and the daemon's log."
    return CheckResult(CONNECTION, False, f"the daemon reports: {reason}{error}", remedy)


async def _others(url: str, network: Network) -> int:
    """The number of connections beside ours, which lives for its hello alone.

    It is never read again, so Slack knows that an envelope sent to it is lost.
    """
    async with ClientSession() as session:
        ours = Connection(session, url, _ignore, set(), network)  # as the daemon would
        async with asyncio.timeout(CALL_SECONDS):
            await ours.open()
        await ours.close()
        return ours.connections - 1


async def _ignore(_connection: Connection, _envelope: Envelope) -> None:
    """Ignore envelopes: this connection only counts the others."""


def _no_connection(error: SlackRefusalError) -> tuple[str, str]:
    word = error.word
    if word == "socket_mode_not_enabled":
        return "Socket Mode is off for this app", SOCKET_MODE_ON
    if word in ("missing_scope", "no_permission"):
        lacks = "the app-level token lacks the scope connections:write, which can't be added later"
        return f"{lacks}: {error}", NEW_APP_TOKEN
    if word == "not_allowed_token_type":
        return "Slack says this isn't an app-level token", COPY_APP_TOKEN
    if word in ("access_denied", "forbidden_team", "team_access_not_granted"):
        return (
            f"Slack doesn't allow the app in this workspace: {error}",
            "Ask a workspace admin to approve the app.",
        )
    return f"Slack rejects the app-level token: {error}", NEW_APP_TOKEN


INTERACTIVITY = "slack_interactivity"
KIND = "interactive"


def check_interactivity(ledger: Path) -> CheckResult:
    """Check interactivity. It never fails: without recent clicks, the state is unknown."""
    came = envelope_times(ledger, KIND)
    if came is not None:
        first, last = (to_text(moment)[:16].replace("T", " ") for moment in came)
        since = f"since {first} UTC, and last" if first != last else "last"
        return CheckResult(INTERACTIVITY, True, f"on: clicks received {since} at {last} UTC")
    where = f"Check that {SETTINGS} → Interactivity & Shortcuts is on (manifest.yml turns it on)."
    return CheckResult(INTERACTIVITY, True, "can't be checked: no click was received recently", where)


ENTERPRISE = "slack_enterprise"
EVENTS = "events_api"


def check_enterprise(enterprise_id: str, ledger: Path) -> list[CheckResult]:
    """Warn where the app may be installed and still receive no events. Nothing for a workspace of its own.

    Slack sends none to an app that was created in the organization without `org_deploy_enabled`; only an event that
    came proves that this app isn't one.
    """
    if not enterprise_id:
        return []
    where = f"the workspace is in the Enterprise organization {enterprise_id}"
    if envelope_times(ledger, EVENTS) is not None:
        return [CheckResult(ENTERPRISE, True, f"{where}; events arrive")]
    remedy = (
        "Mention the bot in a channel. If it doesn't answer, the app is installed for the organization. "
        f"{IN_THE_WORKSPACE}"
    )
    return [CheckResult(ENTERPRISE, True, f"{where}; no mention or direct message was received recently", remedy)]
