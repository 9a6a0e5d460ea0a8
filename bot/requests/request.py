"""A person's request, the same value whether it was typed, mentioned, filled in or pressed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bot.requests.forms import chosen_channel
from bot.views.buttons import ON_ALERT, PAGE, SHARE, command_name
from bot.views.cards.alert import PRESS
from bot.views.cards.approval import VOTE
from bot.views.forms import form_context
from bot.views.text import unescape
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import TargetRule
from supervisor_core.storage.envelopes import StoredEnvelope

TAIL = 9
"""Characters of a hash in a task id: enough that two never meet within one second."""

TAB = "\t"
"""Between what stands before a choice and what stands after it, in the id of the menu's block."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and how its sender can be answered."""

    text: str
    user: str
    team: str
    channel: str
    at: datetime
    key: str
    """The envelope in which it came."""
    thread: str | None = None
    """The thread in which it was said, where it was said in one."""
    message: str | None = None
    """The message with which it was said: a mention is answered below it."""
    response_url: str | None = None
    button: str | None = None
    """What makes two presses the same: of the same button of the same message, whoever presses it."""
    direct: bool = False
    """Whether nobody else reads what is said there: then an answer is an ordinary message, and stays."""
    page: str = ""
    """Which page of the answer, as the button says whose press it was; empty for the first."""
    target: str = ""
    """Whom a button or a menu names, which may be none any more; empty where the text alone says it."""
    shares: str = ""
    """What is to be shown to everybody there, as the button says whose press it was; empty for what only its sender
    asks for."""
    replaces: bool = False
    """Whether the answer takes the place of the message whose button was pressed: only its reader sees that one."""
    said_at: datetime | None = None
    """When it was said, by Slack's clock, where Slack may deliver it much later."""

    @property
    def actor(self) -> str:
        """Who asked, as the audit trail writes it."""
        return f"slack:{self.team}/{self.user}"

    @property
    def task_id(self) -> str:
        """The id of the command that it becomes: the same each time that this delivery is dealt with."""
        if self.button is not None:
            return f"{self.press}_{_digest(self.key)[:TAIL]}"
        return f"task_{self.at:%Y%m%d_%H%M%S}_{_digest(self.key)[:TAIL]}"

    @property
    def press(self) -> str:
        """How the ids of all presses of one button begin; for what is no press its own id."""
        return self.task_id if self.button is None else f"task_button_{_digest(self.button)}"

    @property
    def nonce(self) -> str:
        """What the buttons of an answer to this carry, so that each of them counts once."""
        return _digest(self.key)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """What somebody says about an approval."""

    request: Request
    approval_id: str
    choice: str
    """`approve`, `deny` or `cancel`."""
    reason: str = ""
    trigger_id: str = ""
    """With which a form may be opened, for three seconds."""
    at_home: bool = False
    """Whether it comes from their own page, which is in no channel."""


@dataclass(frozen=True, slots=True)
class AlertAction:
    """What somebody does about an alert."""

    request: Request
    alert_id: str
    choice: str
    """`acknowledge` or `snooze`."""


def from_slash_command(received: StoredEnvelope) -> Request:
    """A slash command."""
    payload = received.payload
    return Request(
        text=unescape(str(payload.get("text") or "")),
        user=str(payload["user_id"]),
        team=str(payload.get("team_id") or ""),
        channel=str(payload["channel_id"]),
        at=received.received_at,
        key=received.key,
        response_url=payload.get("response_url"),
    )


@dataclass(frozen=True, slots=True)
class FormSubmission:
    """A command's form that was sent; its request has no text yet."""

    request: Request
    view: Mapping[str, Any]


def from_mention(received: StoredEnvelope) -> Request:
    """A message that mentions the bot; in a direct message a mention is nothing special."""
    direct = str(received.payload["event"]["channel"]).startswith("D")
    return _from_message(received, direct=direct)


def from_direct_message(received: StoredEnvelope) -> Request | None:
    """A direct message; None for every other message of which Slack tells the bot."""
    return _from_message(received, direct=True) if is_direct_message(received.payload["event"]) else None


def _from_message(received: StoredEnvelope, *, direct: bool) -> Request:
    """A direct message is answered where it was sent, a mention in its thread."""
    event = received.payload["event"]
    return Request(
        said_at=_sent_at(event.get("ts")),
        text=unescape(str(event.get("text") or "")),
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
    """When a message was written; None where that makes no sense."""
    try:
        return datetime.fromtimestamp(float(str(ts)), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def is_direct_message(event: Mapping[str, Any]) -> bool:
    """Whether this is what a person wrote to the bot alone. Slack tells of edits, deletions, joins and of what bots
    write (ourselves among them) by the same event."""
    plain = not event.get("subtype") and not event.get("bot_id") and bool(event.get("user"))
    return plain and event.get("channel_type") == "im"


def from_form_opening(received: StoredEnvelope) -> Request:
    """What was done to get a form, or in one: nothing is asked for yet, but its sender can be told something."""
    payload = received.payload
    container: Mapping[str, Any] = payload.get("container") or {}
    known = form_context(payload.get("view") or {})
    channel = str((payload.get("channel") or {}).get("id") or container.get("channel_id") or known.channel)
    message: Mapping[str, Any] = payload.get("message") or {}
    on_message = message.get("thread_ts") or message.get("ts") if payload.get("type") == "message_action" else None
    return _from_person(received, "", channel, on_message or _thread_of(container) or known.thread)


def from_form(received: StoredEnvelope) -> FormSubmission:
    """A form that was sent; for the place that it was opened from, else for the one chosen in it."""
    payload = received.payload
    view = payload["view"]
    known = form_context(view)
    request = _from_person(received, "", known.channel or chosen_channel(view), known.thread)
    urls: Sequence[Mapping[str, Any]] = payload.get("response_urls") or ()
    return FormSubmission(replace(request, response_url=urls[0]["response_url"] if urls else None), view)


def _from_person(received: StoredEnvelope, text: str, channel: str, thread: str | None) -> Request:
    """A request by what Slack calls interactive. Without a channel it is between this person and the bot."""
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
    """A press of a button that gives a command."""
    return _from_button(received, command_name(_action_id(received)))


def _action_id(received: StoredEnvelope) -> str:
    return str(received.payload["actions"][0]["action_id"])


def _from_button(received: StoredEnvelope, command: str) -> Request:
    """A press of a button whose value is `NONCE TARGET`."""
    payload = received.payload
    user, channel = payload["user"], payload.get("channel") or {}
    container: Mapping[str, Any] = payload.get("container") or {}
    nonce, _, target = str(payload["actions"][0].get("value") or "").partition(" ")
    return Request(
        text=f"{command} {target}",
        user=str(user["id"]),
        team=str(user.get("team_id") or (payload.get("team") or {}).get("id") or ""),
        channel=str(channel.get("id") or container.get("channel_id") or ""),
        at=received.received_at,
        key=received.key,
        thread=_thread_of(container) or (container.get("message_ts") if nonce.startswith(ON_ALERT) else None),
        response_url=payload.get("response_url"),
        button=f"{nonce} {command} {target}",
        target=_target_in(command, target),
        replaces=bool(container.get("is_ephemeral")),
    )


def _thread_of(container: Mapping[str, Any]) -> str | None:
    """The thread in which a message stands. One that has replies names itself, and stands in the channel."""
    thread = container.get("thread_ts")
    return thread if thread != container.get("message_ts") else None


def from_page_button(received: StoredEnvelope) -> Request:
    """A press of a button for another page, whose value is `NONCE WHERE ARGUMENTS`. What only its reader sees is
    replaced by the other page; below a mention, where others read as well, they get a page of their own."""
    command = _action_id(received).removeprefix(PAGE).partition(":")[2]
    request = _from_button(received, command)
    _, _, rest = str(received.payload["actions"][0].get("value") or "").partition(" ")
    where, _, arguments = rest.partition(" ")
    direct = request.channel.startswith("D")
    replaces, target = request.replaces or direct, _target_in(command, arguments)
    return replace(request, text=f"{command} {arguments}", page=where, button=None, target=target, replaces=replaces)


def from_share_button(received: StoredEnvelope) -> Request:
    """A press of a button that shows everybody in the channel what was answered to one person; its value is
    `NONCE WHICH ARGUMENTS`. Pressed twice it is shown once."""
    command = _action_id(received).removeprefix(SHARE)
    request = _from_button(received, command)
    nonce, _, rest = str(received.payload["actions"][0].get("value") or "").partition(" ")
    which, _, arguments = rest.partition(" ")
    button, target = f"{nonce} share {command} {arguments}", _target_in(command, arguments)
    return replace(request, text=f"{command} {arguments}", target=target, shares=which, button=button)


def from_vote_button(received: StoredEnvelope) -> VoteRequest:
    """A press of a button of an approval, whose value is the approval's id."""
    choice = _action_id(received).removeprefix(VOTE)
    approval_id = str(received.payload["actions"][0].get("value") or "")
    trigger = str(received.payload.get("trigger_id") or "")
    return VoteRequest(replace(_from_button(received, choice), button=None), approval_id, choice, trigger_id=trigger)


def from_alert_button(received: StoredEnvelope) -> AlertAction:
    """A press of a button of an alert, whose value is the alert's id."""
    choice = _action_id(received).removeprefix(PRESS)
    alert_id = str(received.payload["actions"][0].get("value") or "")
    return AlertAction(replace(_from_button(received, choice), button=None, replaces=False), alert_id, choice)


def from_denial_form(received: StoredEnvelope) -> VoteRequest:
    """A form in which somebody says why they deny: it knows the approval and the place from which it was opened."""
    payload, view = received.payload, received.payload["view"]
    place = json.loads(view["private_metadata"])
    values: Mapping[str, Any] = view["state"]["values"]
    said = next((element.get("value") for block in values.values() for element in block.values()), None)
    user = payload["user"]
    request = Request(
        text=f"deny {place['approval_id']}",
        user=str(user["id"]),
        team=str(user.get("team_id") or (payload.get("team") or {}).get("id") or ""),
        channel=str(place["channel"]),
        at=received.received_at,
        key=received.key,
        thread=place.get("thread"),
        response_url=place.get("response_url"),
        replaces=place.get("replaces") is True,
    )
    return VoteRequest(request, str(place["approval_id"]), "deny", reason=str(said or ""))


def from_home_button(received: StoredEnvelope) -> VoteRequest:
    """A press of the button beside an approval on somebody's page."""
    payload = received.payload
    approval_id, trigger = str(payload["actions"][0].get("value") or ""), str(payload.get("trigger_id") or "")
    return VoteRequest(_from_person(received, "", "", None), approval_id, "", trigger_id=trigger, at_home=True)


def from_decision_form(received: StoredEnvelope) -> VoteRequest:
    """The form that this button opens, filled in. It knows the approval."""
    view = received.payload["view"]
    values: Mapping[str, Any] = view["state"]["values"]
    choice = (values["choice"]["choice"].get("selected_option") or {}).get("value")
    reason = str(values["reason"]["reason"].get("value") or "")
    request = _from_person(received, f"{choice} {view['private_metadata']}", "", None)
    return VoteRequest(request, str(view["private_metadata"]), str(choice), reason, at_home=True)


def from_menu(received: StoredEnvelope) -> Request:
    """A choice from a menu, which stands in a block whose id says what the choice completes."""
    action = received.payload["actions"][0]
    nonce, _, said = str(action.get("block_id") or "").partition(" ")
    before, _, after = said.partition(TAB)
    target = str(action["selected_option"]["value"])
    text = f"{before} {target} {after}".rstrip(" ")
    return replace(_from_button(received, ""), text=text, target=target, button=f"{nonce} {text}")


def _target_in(command: str, arguments: str) -> str:
    """The target that a button names: of a command for workers it stands first, and is never left out there."""
    definition = CATALOG.get(command)
    return arguments.partition(" ")[0] if definition and definition.target is TargetRule.WORKERS else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
