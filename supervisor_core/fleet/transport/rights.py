"""The accounts of the server: one for the hub, and one for each host and each open invite.

NATS checks the right to publish on a subject, but not on the reply subject of a request, where it or the hub answers.
So a list of subjects isn't enough: a subject of one account doesn't exist in another. A host's account imports its own
presence, queue and acknowledgments from the hub's, and the hub's account imports the requests to each host. A reply
subject stays in the account of whoever named it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor_core.fleet.transport.subjects import (
    ALL_ACKNOWLEDGMENTS,
    ALL_JOINS,
    ALL_PRESENCE,
    ALL_PULLS,
    HUB_INBOX,
    ROOT,
    SERVER_VARIABLES,
    SERVICE_REPLIES,
    ask_subject,
    command_acknowledgments,
    host_inbox,
    join_inbox,
    join_subject,
    next_command_subject,
    presence_subject,
    reload_subject,
)

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
