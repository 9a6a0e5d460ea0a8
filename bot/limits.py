"""What Slack bears of each kind of message, and by which method the next word of it goes. Its limits are per minute."""

from __future__ import annotations

from bot.outgoing import WHISPER
from bot.pace import Gate
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.replies import FILE

POST, EDIT, ASIDE = "chat.postMessage", "chat.update", "chat.postEphemeral"
SHARE = "files.completeUploadExternal"

EDIT_OF_ONE_SECONDS, EDIT_SECONDS = 2.5, 1.3  # chat.update: 50, for the whole app
POST_SECONDS, POST_BURST = 1.0, 5  # chat.postMessage: one a second in a channel, with bursts
OF_A_WHISPER = (Gate("whispers", 0.6, burst=20),)  # chat.postEphemeral: 100
UPLOADS = Gate("files", 0.6, burst=20)  # files.*: 100


def method(message: Waiting) -> str:
    """What it is sent by next."""
    if message.kind == WHISPER:
        return ASIDE
    if message.kind == FILE:
        return SHARE
    return EDIT if message.address.get("ts") else POST


def gates(message: Waiting) -> tuple[Gate, ...]:
    """The limits that its next call must pass."""
    if message.kind == WHISPER:
        return OF_A_WHISPER
    if message.kind == FILE:
        return of_a_file(message)
    return of_an_edit(message) if message.address.get("ts") else of_a_post(message)


def of_an_edit(message: Waiting) -> tuple[Gate, ...]:
    """The limits of an edit."""
    return Gate(("edit", message.outbox_id), EDIT_OF_ONE_SECONDS), Gate("edits", EDIT_SECONDS)


def of_a_post(message: Waiting) -> tuple[Gate, ...]:
    """The limits of a post."""
    return (Gate(("post", message.payload.get("channel")), POST_SECONDS, POST_BURST),)


def of_a_file(message: Waiting) -> tuple[Gate, ...]:
    """The limits of an upload, which is a post as well."""
    return (UPLOADS, *of_a_post(message))
