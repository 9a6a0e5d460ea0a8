"""files.*: the upload in three steps, and what is known of a file."""

from __future__ import annotations

import mimetypes
import re

from slack_playground.values import Json, SlackError
from slack_playground.web_api import content
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.workspace import Channel, File
from slack_playground.world.world import World

LARGEST = 1_000_000_000  # bytes
MOST_CHANNELS = 100
TEXTS = ("text/", "application/json", "application/xml", "application/x-yaml", "application/javascript")


@handles("files.getUploadURLExternal")
def get_upload_url(call: Call) -> Json:
    length = call.number("length", 0)
    if length <= 0:
        raise SlackError("missing_argument")
    if length > LARGEST:
        raise SlackError("file_upload_size_restricted")
    file = new_file(call.world, call.text("filename"), call.world.bot.id, expected=length)
    file.alt_txt = call.text("alt_txt")
    return {"ok": True, "upload_url": f"{call.world.base_url}/upload/v1/{file.id}", "file_id": file.id}


def new_file(world: World, name: str, user: str, *, expected: int = 0, content: bytes = b"") -> File:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    ending = name.rpartition(".")[2].lower() if "." in name else "binary"
    file = File(world.workspace.new_id("F"), name, name, user, int(world.clock.now()), kind, ending, content=content)
    file.expected = expected
    world.workspace.files[file.id] = file
    return file


def for_page(file: File) -> Json:
    about: Json = {"id": file.id, "name": file.name, "title": file.title, "mimetype": file.mimetype, "user": file.user}
    about |= {"filetype": file.filetype, "size": len(file.content), "url": file.path, "alt_txt": file.alt_txt}
    return about | {
        "created": file.created,
        "lines": file.content.count(b"\n") if file.mimetype.startswith(TEXTS) else 0,
    }


def for_bot(world: World, file: File) -> Json:
    address = world.base_url + file.path
    about = for_page(file) | {"timestamp": file.created, "pretty_type": file.filetype.upper(), "mode": "hosted"}
    about |= {"url_private": address, "url_private_download": address, "permalink": address, "is_external": False}
    return about | {"is_public": False, "public_url_shared": False, "editable": False, "display_as_bot": False}


@handles("files.completeUploadExternal")
def complete(call: Call) -> Json:
    files = [_uploaded(call, asked) for asked in call.objects("files", "invalid_arguments") or []]
    if not files:
        raise SlackError("invalid_arguments", "must provide at least one file [json-pointer:/files]")
    words = [word for word in re.split(r"[,\s]+", call.text("channels")) if word]
    if len(words) > MOST_CHANNELS:
        raise SlackError("channels_limit_exceeded")
    channels = [_channel(call, word) for word in [call.text("channel_id"), *words] if word]
    blocks = call.objects("blocks", "invalid_blocks")
    if blocks:
        content.check_message({"blocks": blocks})
    for file in files:
        file.ready = True
    about = [for_bot(call.world, file) for file in files]
    for channel in channels:
        thread = channel.messages.get(call.text("thread_ts"))
        fields: Json = {"text": call.text("initial_comment"), "blocks": blocks, "upload": True, "files": about}
        if thread:
            fields["thread_ts"] = thread.get("thread_ts") or thread["ts"]
        call.world.post(channel, fields | content.bot_fields(call))
    return {"ok": True, "files": about}


def _uploaded(call: Call, asked: Json) -> File:
    file = call.world.workspace.files.get(str(asked.get("id")))
    if file is None or file.user != call.world.bot.id:
        raise SlackError("file_not_found")
    if len(file.content) != file.expected:
        raise SlackError("file_update_failed")
    file.title = str(asked.get("title") or file.name)
    return file


def _channel(call: Call, word: str) -> Channel:
    world = call.world
    if word in world.workspace.users:
        raise SlackError("invalid_channel")
    channel = world.workspace.channels.get(word)
    if channel is None or (channel.kind != "public" and world.bot.id not in channel.members):
        raise SlackError("channel_not_found")
    if world.bot.id not in channel.members:
        raise SlackError("not_in_channel")
    if channel.archived:
        raise SlackError("is_archived")
    return channel


@handles("files.info")
def info(call: Call) -> Json:
    file = call.world.workspace.files.get(call.text("file"))
    if file is None or not file.ready:
        raise SlackError("file_not_found")
    return {"ok": True, "file": for_bot(call.world, file), "comments": [], "response_metadata": {"next_cursor": ""}}
