"""A person's request, the same value for text, mentions, forms and buttons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bot.requests.forms import chosen_channel
from bot.views.buttons import ON_ALERT, PAGE, command_name
from bot.views.cards.alert import PRESS
from bot.views.cards.approval import VOTE
from bot.views.forms import form_context
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import TargetRule
from supervisor_core.storage.envelopes import StoredEnvelope

TAIL = 9
"""Characters of a hash in a command id: enough to be unique within a second."""

TAB = "\t"
"""Separates the text before and after a choice in the `block_id` of a menu."""


@dataclass(frozen=True, slots=True)
class Request:
    text: str
    """As Slack sends it, with `<`, `>` and `&` as entities: the grammar decodes them."""
    user: str
    team: str
    channel: str
    at: datetime
    key: str
    """The key of its envelope."""
    thread: str | None = None
    """The thread that it was sent in, if any."""
    message: str | None = None
    """The message of a mention, which is answered in its thread."""
    response_url: str | None = None
    button: str | None = None
    """Identifies the button of a message, whoever presses it."""
    direct: bool = False
    """True where nobody else reads along: then the answer is an ordinary message."""
    page: str = ""
    """The page of the answer, from the pressed button; empty for the first."""
    target: str = ""
    """The target of a button or menu, which may no longer exist; empty for typed text."""
    replaces: bool = False
    """True if the answer replaces the message of the button, which only this person sees."""
    form: Mapping[str, Any] | None = None
    """The view of a submitted form."""
    said_at: datetime | None = None
    """The time of the message by Slack's clock, because Slack may deliver it much later."""

    @property
    def actor(self) -> str:
        return f"slack:{self.team}/{self.user}"

    @property
    def task_id(self) -> str:
        """The id of its command: the same each time that this delivery is handled."""
        if self.button is not None:
            return f"{self.press}_{_digest(self.key)[:TAIL]}"
        return f"task_{self.at:%Y%m%d_%H%M%S}_{_digest(self.key)[:TAIL]}"

    @property
    def press(self) -> str:
        """The start of the command ids of all presses of one button; else its own id."""
        return self.task_id if self.button is None else f"task_button_{_digest(self.button)}"

    @property
    def nonce(self) -> str:
        """Identifies the buttons of the answer, so that each counts once."""
        return _digest(self.key)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    request: Request
    approval_id: str
    choice: str
    """`approve`, `deny` or `cancel`."""
    reason: str = ""
    trigger_id: str = ""
    """The trigger with which a form can be opened within three seconds."""
    at_home: bool = False
    """True if it comes from App Home, which isn't in a channel."""


def from_slash_command(received: StoredEnvelope) -> Request:
    payload = received.payload
    return Request(
        text=str(payload.get("text") or ""),
        user=str(payload["user_id"]),
        team=str(payload.get("team_id") or ""),
        channel=str(payload["channel_id"]),
        at=received.received_at,
        key=received.key,
        response_url=payload.get("response_url"),
    )


def from_mention(received: StoredEnvelope) -> Request:
    direct = str(received.payload["event"]["channel"]).startswith("D")
    return _from_message(received, direct=direct)


def from_direct_message(received: StoredEnvelope) -> Request | None:
    return _from_message(received, direct=True) if is_direct_message(received.payload["event"]) else None


def _from_message(received: StoredEnvelope, *, direct: bool) -> Request:
    """The request of a message. A direct message is answered in place, a mention in its thread."""
    event = received.payload["event"]
    return Request(
        said_at=_sent_at(event.get("ts")),
        text=str(event.get("text") or ""),
        user=str(event["user"]),
        team=str(event.get("team") or received.payload.get("team_id") or ""),
        channel=str(event["channel"]),
        at=received.received_at,
        key=received.key,
        thread=event.get("thread_ts"),
        message=None if direct else str(event["ts"]),
        direct=direct,
    )


def _sent_at(ts: object) -> datetime | None:
    """The time of a message; None if it isn't valid."""
    try:
        return datetime.fromtimestamp(float(str(ts)), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def is_direct_message(event: Mapping[str, Any]) -> bool:
    """True for a person's direct message. Edits, deletions, joins and messages of bots are the same event."""
    plain = not event.get("subtype") and not event.get("bot_id") and bool(event.get("user"))
    return plain and event.get("channel_type") == "im"


def from_form_opening(received: StoredEnvelope) -> Request:
    """The request for a form: without a text, but with a way to answer."""
    payload = received.payload
    container: Mapping[str, Any] = payload.get("container") or {}
    known = form_context(payload.get("view") or {})
    channel = str((payload.get("channel") or {}).get("id") or container.get("channel_id") or known.channel)
    message: Mapping[str, Any] = payload.get("message") or {}
    on_message = message.get("thread_ts") or message.get("ts") if payload.get("type") == "message_action" else None
    return _from_person(received, "", channel, on_message or _thread_of(container) or known.thread)


def from_form(received: StoredEnvelope) -> Request:
    """The submission of a form, for the channel that it was opened in, else for the chosen one. It has no text yet."""
    payload = received.payload
    view = payload["view"]
    known = form_context(view)
    request = _from_person(received, "", known.channel or chosen_channel(view), known.thread)
    urls: Sequence[Mapping[str, Any]] = payload.get("response_urls") or ()
    return replace(request, response_url=urls[0]["response_url"] if urls else None, form=view)


def _from_person(received: StoredEnvelope, text: str, channel: str, thread: str | None) -> Request:
    """A request from an interactive element. Without a channel, it's between the person and the bot."""
    payload = received.payload
    user = payload["user"]
    return Request(
        text=text,
        user=str(user["id"]),
        team=str(user.get("team_id") or (payload.get("team") or {}).get("id") or ""),
        channel=channel or str(user["id"]),
        at=received.received_at,
        key=received.key,
        thread=thread,
        response_url=payload.get("response_url"),
        direct=not channel or channel.startswith("D"),
    )


def from_command_button(received: StoredEnvelope) -> Request:
    return _from_button(received, command_name(_action_id(received)))


def _action_id(received: StoredEnvelope) -> str:
    return str(received.payload["actions"][0]["action_id"])


def _value(received: StoredEnvelope) -> str:
    return str(received.payload["actions"][0].get("value") or "")


def _trigger_id(received: StoredEnvelope) -> str:
    return str(received.payload.get("trigger_id") or "")


def _from_button(received: StoredEnvelope, command: str) -> Request:
    """A press of a button whose value is `NONCE TARGET`."""
    channel = received.payload.get("channel") or {}
    container: Mapping[str, Any] = received.payload.get("container") or {}
    nonce, _, target = _value(received).partition(" ")
    place = str(channel.get("id") or container.get("channel_id") or "")
    thread = _thread_of(container) or (container.get("message_ts") if nonce.startswith(ON_ALERT) else None)
    return replace(
        _from_person(received, f"{command} {target}", place, thread),
        direct=False,
        button=f"{nonce} {command} {target}",
        target=_target_in(command, target),
        replaces=bool(container.get("is_ephemeral")),
    )


def _thread_of(container: Mapping[str, Any]) -> str | None:
    """The thread of a message. A message with replies names itself, and is in the channel."""
    thread = container.get("thread_ts")
    return thread if thread != container.get("message_ts") else None


def from_page_button(received: StoredEnvelope) -> Request:
    """A button with the value `NONCE WHERE ARGUMENTS`. The page replaces a private answer; in a thread that others
    read, the person gets a message of their own."""
    command = _action_id(received).removeprefix(PAGE).partition(":")[2]
    request = _from_button(received, command)
    where, _, arguments = _value(received).partition(" ")[2].partition(" ")
    direct = request.channel.startswith("D")
    replaces, target = request.replaces or direct, _target_in(command, arguments)
    return replace(request, text=f"{command} {arguments}", page=where, button=None, target=target, replaces=replaces)


def from_vote_button(received: StoredEnvelope) -> VoteRequest:
    choice = _action_id(received).removeprefix(VOTE)
    request = replace(_from_button(received, choice), button=None)
    return VoteRequest(request, _value(received), choice, trigger_id=_trigger_id(received))


def from_withdraw_button(received: StoredEnvelope) -> Request:
    return replace(_from_button(received, "cancel"), text=_value(received), button=None, target="")


def from_alert_button(received: StoredEnvelope) -> Request:
    action = _action_id(received).removeprefix(PRESS)
    text = f"{action} {_value(received)}"
    return replace(_from_button(received, action), text=text, button=None, replaces=False)


def from_denial_form(received: StoredEnvelope) -> VoteRequest:
    """The denial of a submitted form, which has the approval and the place where it was opened."""
    view = received.payload["view"]
    place = json.loads(view["private_metadata"])
    values: Mapping[str, Any] = view["state"]["values"]
    reason = next((element.get("value") for block in values.values() for element in block.values()), None)
    request = replace(
        _from_person(received, f"deny {place['approval_id']}", str(place["channel"]), place.get("thread")),
        direct=False,
        response_url=place.get("response_url"),
        replaces=place.get("replaces") is True,
    )
    return VoteRequest(request, str(place["approval_id"]), "deny", reason=str(reason or ""))


def from_home_button(received: StoredEnvelope) -> VoteRequest:
    request = _from_person(received, "", "", None)
    return VoteRequest(request, _value(received), "", trigger_id=_trigger_id(received), at_home=True)


def from_decision_form(received: StoredEnvelope) -> VoteRequest:
    view = received.payload["view"]
    values: Mapping[str, Any] = view["state"]["values"]
    choice = (values["choice"]["choice"].get("selected_option") or {}).get("value")
    reason = str(values["reason"]["reason"].get("value") or "")
    request = _from_person(received, f"{choice} {view['private_metadata']}", "", None)
    return VoteRequest(request, str(view["private_metadata"]), str(choice), reason, at_home=True)


def from_menu(received: StoredEnvelope) -> Request:
    """The request of a choice from a menu. The menu's `block_id` has the rest of the text."""
    action = received.payload["actions"][0]
    nonce, _, said = str(action.get("block_id") or "").partition(" ")
    before, _, after = said.partition(TAB)
    target = str(action["selected_option"]["value"])
    text = f"{before} {target} {after}".rstrip(" ")
    return replace(_from_button(received, ""), text=text, target=target, button=f"{nonce} {text}")


def _target_in(command: str, arguments: str) -> str:
    definition = CATALOG.get(command)
    return arguments.partition(" ")[0] if definition and definition.target is TargetRule.WORKERS else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
