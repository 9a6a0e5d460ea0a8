"""The subjects, the stream, inboxes and names of the fleet in NATS. Pure.

`fleet.commands.HOST` is stored in the stream COMMANDS. `fleet.ask.HOST`, `fleet.presence.HOST` and `fleet.join.INVITE`
aren't stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor_core.common.errors import UsageError
from supervisor_core.config.fields import FLEET_NAME, FLEET_NAME_WORDS

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
    return f"{ROOT}.ask.{checked_name(host)}"


def presence_subject(host: str) -> str:
    return f"{ROOT}.presence.{checked_name(host)}"


def join_subject(invite_id: str) -> str:
    return f"{ROOT}.join.{checked_name(invite_id)}"


def last_word(subject: str) -> str:
    """The host or invite of a subject. The server has checked that its sender may use the subject."""
    return subject.rpartition(".")[2]


def host_inbox(host: str) -> str:
    return f"_INBOX_{checked_name(host)}"


def join_inbox(invite_id: str) -> str:
    return f"_JOIN.{checked_name(invite_id)}"


def next_command_subject(host: str) -> str:
    return f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.{checked_name(host)}"


def command_acknowledgments(host: str) -> str:
    return f"$JS.ACK.{COMMANDS}.{checked_name(host)}.>"


def reload_subject(server_id: str) -> str:
    """The request to read the configuration again. Only the hub may send it."""
    return f"$SYS.REQ.SERVER.{server_id}.RELOAD"


ANSWER_TIME = "1m"
"""Time in which a host may answer a request."""

SYSTEM_ACCOUNT, HUB_ACCOUNT = "SYS", "FLEET"
SYSTEM_REQUESTS = (SERVER_VARIABLES, reload_subject("*"))
"""Requests to the server itself that the hub may send."""


def accounts_text(hub_key: str, hosts: Mapping[str, str], invites: Mapping[str, str]) -> str:
    """The file with the accounts: for the public keys of the hub, of hosts by name, and of invites by id."""
    accounts = {
        SYSTEM_ACCOUNT: {"exports": [{"service": subject, "accounts": [HUB_ACCOUNT]} for subject in SYSTEM_REQUESTS]},
        HUB_ACCOUNT: hub_account(hub_key, hosts),
        **{f"HOST_{name}": host_account(name, key) for name, key in sorted(hosts.items())},
        **{f"INVITE_{invite_id}": invite_account(invite_id, key) for invite_id, key in sorted(invites.items())},
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(account)}" for name, account in accounts.items())
    return (
        "# Written by the supervisor at each change of the fleet. Don't edit it.\n"
        f"system_account: {SYSTEM_ACCOUNT}\naccounts: {{\n{lines}\n}}\n"
    )


def hub_account(key: str, hosts: Mapping[str, str]) -> Mapping[str, Any]:
    """The hub: all subjects of the fleet, and JetStream.

    It may answer invites at any time: a reload of the server, which each join needs, forgets who may answer whom.
    """
    imports = [_import(SYSTEM_ACCOUNT, subject) for subject in SYSTEM_REQUESTS]
    imports += [_import(f"HOST_{name}", ask_subject(name)) for name in sorted(hosts)]
    publish = [f"{ROOT}.>", "$JS.>", f"{SERVICE_REPLIES}.>", *SYSTEM_REQUESTS]
    return {
        "jetstream": "enabled",
        "exports": [
            {"service": ALL_PRESENCE},
            {"service": ALL_JOINS},
            {"service": ALL_ACKNOWLEDGMENTS},
            {"service": ALL_PULLS},
        ],
        "imports": imports,
        "users": [_user(key, publish, [f"{ROOT}.>", f"{HUB_INBOX}.>"])],
    }


def host_account(name: str, key: str) -> Mapping[str, Any]:
    publish = [presence_subject(name), next_command_subject(name), command_acknowledgments(name)]
    subscribe = [ask_subject(name), f"{host_inbox(name)}.>"]
    return {
        "exports": [{"service": ask_subject(name), "accounts": [HUB_ACCOUNT]}],
        "imports": [_import(HUB_ACCOUNT, subject) for subject in publish],
        "users": [_user(key, publish, subscribe, answers=1)],
    }


def invite_account(invite_id: str, key: str) -> Mapping[str, Any]:
    subject = join_subject(invite_id)
    return {
        "imports": [_import(HUB_ACCOUNT, subject)],
        "users": [_user(key, [subject], [f"{join_inbox(invite_id)}.>"])],
    }


def _import(account: str, subject: str) -> Mapping[str, Any]:
    return {"service": {"account": account, "subject": subject}}


def _user(key: str, publish: Sequence[str], subscribe: Sequence[str], answers: int = 0) -> Mapping[str, Any]:
    permissions: dict[str, Any] = {"publish": {"allow": list(publish)}, "subscribe": {"allow": list(subscribe)}}
    if answers:
        permissions["allow_responses"] = {"max": answers, "expires": ANSWER_TIME}
    return {"nkey": key, "permissions": permissions}
