"""The users of the server: each key with no more rights than its host, invite or hub needs.

A host publishes its own presence, pulls and acknowledges its own commands, and answers the hub's requests. It
can't subscribe to another's subjects or inbox, and has no part of the JetStream API that creates, deletes or lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor_core.fleet.transport.subjects import (
    HUB_INBOX,
    JOIN_INBOXES,
    ROOT,
    SERVER_VARIABLES,
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

EXPORTED = (SERVER_VARIABLES, reload_subject("*"))
"""Requests to the server itself that the hub may send."""


def users_text(hub_key: str, hosts: Mapping[str, str], invites: Mapping[str, str]) -> str:
    """The file with the users: the public keys of the hub, of hosts by name, and of invites by id."""
    users = [hub_user(hub_key)]
    users += [host_user(name, key) for name, key in sorted(hosts.items())]
    users += [invite_user(invite_id, key) for invite_id, key in sorted(invites.items())]
    lines = ",\n".join(f"  {json.dumps(each)}" for each in users)
    return f"# Written by the supervisor at each change of the fleet. Don't edit it.\nusers: [\n{lines}\n]\n"


def hub_user(key: str) -> Mapping[str, Any]:
    """The hub: all subjects of the fleet, and JetStream.

    It may answer invites at any time: a reload of the server, which each join needs, forgets who may answer whom.
    """
    return _user(
        key, [f"{ROOT}.>", "$JS.>", f"{JOIN_INBOXES}.>", *EXPORTED], [f"{ROOT}.>", f"{HUB_INBOX}.>"], answers=0
    )


def host_user(name: str, key: str) -> Mapping[str, Any]:
    """A host: its own subjects."""
    publish = [
        presence_subject(name),
        next_command_subject(name),
        command_acknowledgments(name),
    ]
    return _user(key, publish, [ask_subject(name), f"{host_inbox(name)}.>"], answers=1)


def invite_user(invite_id: str, key: str) -> Mapping[str, Any]:
    """An invite: one request."""
    return _user(key, [join_subject(invite_id)], [f"{join_inbox(invite_id)}.>"], answers=0)


def _user(key: str, publish: Sequence[str], subscribe: Sequence[str], answers: int) -> Mapping[str, Any]:
    permissions: dict[str, Any] = {"publish": {"allow": list(publish)}, "subscribe": {"allow": list(subscribe)}}
    if answers:
        permissions["allow_responses"] = {"max": answers, "expires": ANSWER_TIME}
    return {"nkey": key, "permissions": permissions}
