"""The subjects, the stream, inboxes and names of the fleet in NATS. Pure.

`fleet.commands.HOST` is stored in the stream COMMANDS. `fleet.ask.HOST`, `fleet.presence.HOST` and `fleet.join.INVITE`
aren't stored.
"""

from __future__ import annotations

from supervisor_core.common.errors import UsageError
from supervisor_core.config.names import FLEET_NAME, FLEET_NAME_WORDS

ROOT = "fleet"
COMMANDS = "COMMANDS"
"""The stream."""

ALL_COMMANDS = f"{ROOT}.commands.*"
"""Its subjects."""

ALL_PRESENCE, ALL_JOINS = f"{ROOT}.presence.*", f"{ROOT}.join.*"
ALL_PULLS, ALL_ACKNOWLEDGMENTS = f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.*", f"$JS.ACK.{COMMANDS}.*.>"

HUB_INBOX = "_HUB"
"""The prefix of the subjects on which the hub gets replies. No host may subscribe to it."""

SERVICE_REPLIES = "_R_"
"""The prefix of the subjects on which the hub answers another account. The server makes them, and knows the account."""

SERVER_VARIABLES = "$SYS.REQ.SERVER.PING.VARZ"
"""The request for the server's version and settings. Only the hub may send it."""


def checked_name(name: str) -> str:
    """The name of a host; `UsageError` if it can't be one word of a subject."""
    if not FLEET_NAME.fullmatch(name):
        raise UsageError(f"{name!a} can't be the name of a host in a fleet: use {FLEET_NAME_WORDS}.")
    return name


def command_subject(host: str) -> str:
    return f"{ROOT}.commands.{checked_name(host)}"


def ask_subject(host: str) -> str:
    """The subject of requests from the hub that a host answers at once."""
    return f"{ROOT}.ask.{checked_name(host)}"


def presence_subject(host: str) -> str:
    return f"{ROOT}.presence.{checked_name(host)}"


def join_subject(invite_id: str) -> str:
    return f"{ROOT}.join.{checked_name(invite_id)}"


def last_word(subject: str) -> str:
    """The host or invite of a subject. The server has checked that its sender may use the subject."""
    return subject.rpartition(".")[2]


def host_inbox(host: str) -> str:
    """The prefix of the subjects on which a host gets replies."""
    return f"_INBOX_{checked_name(host)}"


def join_inbox(invite_id: str) -> str:
    """The prefix of the subjects on which an invite's user gets the reply."""
    return f"_JOIN.{checked_name(invite_id)}"


def next_command_subject(host: str) -> str:
    return f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.{checked_name(host)}"


def command_acknowledgments(host: str) -> str:
    return f"$JS.ACK.{COMMANDS}.{checked_name(host)}.>"


def reload_subject(server_id: str) -> str:
    """The request to read the configuration again. Only the hub may send it."""
    return f"$SYS.REQ.SERVER.{server_id}.RELOAD"
