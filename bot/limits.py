"""What Slack bears of each kind of message, and by which method the next word of it goes. Its limits are per minute."""

from __future__ import annotations

from bot.outgoing import HOME, WHISPER
from bot.pace import Gate
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.replies import FILE

POST, EDIT, ASIDE, PUBLISH = "chat.postMessage", "chat.update", "chat.postEphemeral", "views.publish"
SHARE, ANSWER = "files.completeUploadExternal", "response_url"

EDIT_OF_ONE_SECONDS, EDIT_SECONDS = 2.5, 1.3  # chat.update: 50, for the whole app
POST_SECONDS, POST_BURST = 1.0, 3  # chat.postMessage: one a second in a channel, with short bursts
OF_A_WHISPER = (Gate("whispers", 0.6, burst=20),)  # chat.postEphemeral: 100
OF_AN_ANSWER = (Gate("answers", 0.1, burst=100),)  # by the address of a request, which bears five each
UPLOADS = Gate("files", 0.6, burst=20)  # files.*: 100

HOMES_SECONDS, HOMES_BURST, BURST_OF_CHANGES = 7.5, 12, 9
"""views.publish: 100. Of all pages together no more than 20 in any minute, however much happens: a burst, and then one
in so many seconds. The last three of the burst are for whoever opens their page or turns it over."""

HOME_OF_ONE_SECONDS, HOME_OF_ONE_BURST = 2.0, 3
"""A restart is several changes within two seconds: the first is shown at once, then how it is when they are over. Who
turns their page over does not wait for that."""


def method(message: Waiting) -> str:
    """What it is sent by next."""
    if message.kind == HOME:
        return PUBLISH
    if message.kind == WHISPER:
        return ANSWER if message.payload.get("response_url") else ASIDE
    if message.kind == FILE:
        return SHARE
    return EDIT if message.address.get("ts") else POST


def held_as(message: Waiting, called: str) -> str:
    """What is left alone when Slack asks that of a method: posts by channel, as Slack counts them, else the method."""
    return f"{called} {message.payload.get('channel') or ''}" if called == POST else called


def gates(message: Waiting) -> tuple[Gate, ...]:
    """The limits that its next call must pass."""
    if message.kind == HOME:
        return of_a_home(message)
    if message.kind == WHISPER:
        return of_a_whisper(message)
    if message.kind == FILE:
        return of_a_file(message)
    return of_an_edit(message) if message.address.get("ts") else of_a_post(message)


def of_a_whisper(message: Waiting) -> tuple[Gate, ...]:
    """The limits of an answer to one person alone."""
    return OF_AN_ANSWER if message.payload.get("response_url") else OF_A_WHISPER


def of_an_edit(message: Waiting) -> tuple[Gate, ...]:
    """The limits of an edit."""
    return Gate(("edit", message.outbox_id), EDIT_OF_ONE_SECONDS), Gate("edits", EDIT_SECONDS)


def of_a_post(message: Waiting) -> tuple[Gate, ...]:
    """The limits of a post."""
    return (Gate(("post", message.payload.get("channel")), POST_SECONDS, POST_BURST),)


def of_a_file(message: Waiting) -> tuple[Gate, ...]:
    """The limits of an upload, which is a post as well."""
    return (UPLOADS, *of_a_post(message))


def of_a_home(message: Waiting) -> tuple[Gate, ...]:
    """The limits of a page."""
    burst, own = (HOMES_BURST, HOME_OF_ONE_BURST) if is_asked_for(message) else (BURST_OF_CHANGES, 1)
    return Gate("homes", HOMES_SECONDS, burst), Gate((HOME, message.outbox_id), HOME_OF_ONE_SECONDS, own)


def is_asked_for(message: Waiting) -> bool:
    """Whether somebody did something for this page, and has not seen it since."""
    return bool(message.payload.get("at") != message.address.get("at"))
