"""HTTP addresses that a bot calls beside the Web API: response URLs, file uploads and the bytes of files."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus

from aiohttp import web

from slack_playground.values import Json, SlackError
from slack_playground.web_api import content
from slack_playground.web_api.dispatcher import drop, strike
from slack_playground.world.faults import HTTP_KINDS
from slack_playground.world.grants import Grants, ResponseUrl
from slack_playground.world.world import World

INLINE = ("image/png", "image/jpeg", "image/gif", "image/webp")
LOST = ("expired_url", "used_url")


class BotHttp:
    def __init__(self, world: World, grants: Grants) -> None:
        self._world, self._grants = world, grants

    async def response_url(self, request: web.Request) -> web.StreamResponse:
        world = self._world
        await asyncio.sleep(world.latency)
        fault = world.faults.strike("response_url", *HTTP_KINDS)
        struck = await strike(request, fault)
        if struck is not None:
            return struck
        body: Json = {}
        uses = 0
        status, answer = HTTPStatus.OK, "ok"
        try:
            if fault and fault.kind == "error":
                raise SlackError(str(fault["error"]))
            url = self._grants.answer(request.path)
            body = await _body(request)
            show_answer(world, url, body)
            url.uses += 1
            uses = url.uses
        except SlackError as error:
            status = HTTPStatus.NOT_FOUND if error.error in LOST else HTTPStatus.BAD_REQUEST
            answer = json.dumps(error.to_json())
        world.journal.write("response_url", url=request.path, body=body, status=int(status), answer=answer, uses=uses)
        if fault and fault.kind == "drop_after":
            return drop(request)
        kind = "text/html" if status is HTTPStatus.OK else "application/json"
        return web.Response(text=answer, status=status, content_type=kind)

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """The bytes of a file, raw or as a form's only file."""
        world = self._world
        await asyncio.sleep(world.latency)
        fault = world.faults.strike("upload", *HTTP_KINDS)
        struck = await strike(request, fault)
        if struck is not None:
            return struck
        file = world.workspace.files.get(request.match_info["file"])
        if file is None or file.content or file.ready:
            return web.Response(text="there is no upload at this address", status=HTTPStatus.NOT_FOUND)
        if request.content_type.startswith("multipart/"):
            parts = [part.file.read() for part in (await request.post()).values() if isinstance(part, web.FileField)]
            content = parts[0] if parts else b""
        else:
            content = await request.read()
        status = HTTPStatus.OK if len(content) == file.expected else HTTPStatus.BAD_REQUEST
        if status is HTTPStatus.OK:
            file.content = content
        world.journal.write("upload", file=file.id, size=len(content), status=int(status))
        if fault and fault.kind == "drop_after":
            return drop(request)
        words = f"OK - {len(content)}" if status is HTTPStatus.OK else f"{file.expected} bytes were announced"
        return web.Response(text=words, status=status)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """The bytes of a file. Nothing but a picture is ever shown as itself, so that no file can run as a page."""
        file = self._world.workspace.files.get(request.match_info["file"])
        if file is None:
            raise web.HTTPNotFound
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
        shown = file.mimetype in INLINE
        headers["Content-Disposition"] = "inline" if shown else "attachment"
        kind = file.mimetype if shown else "application/octet-stream"
        return web.Response(body=file.content, content_type=kind, headers=headers)


async def _body(request: web.Request) -> Json:
    try:
        if request.content_type == "application/x-www-form-urlencoded":
            body = json.loads(str((await request.post()).get("payload", "{}")))
        else:
            body = json.loads(await request.text())
    except json.JSONDecodeError:
        raise SlackError("invalid_payload") from None
    if not isinstance(body, dict):
        raise SlackError("invalid_payload")
    return body


def _read(body: Json) -> content.Content:
    """The content of an answer, checked."""
    text, blocks, attachments = body.get("text"), body.get("blocks"), body.get("attachments")
    for name, value, kind in (("text", text, str), ("blocks", blocks, list), ("attachments", attachments, list)):
        if value is not None and not isinstance(value, kind):
            raise SlackError("invalid_payload", f"must be of another kind [json-pointer:/{name}]")
    content.check_content(text, blocks, attachments)
    return content.Content(text, blocks, attachments, body.get("metadata"))


def show_answer(world: World, url: ResponseUrl, body: Json) -> None:
    """Show an answer where its command or click was, replace the original by it, or delete that."""
    channel = world.workspace.channels.get(url.channel)
    if channel is None:  # it was before everything was forgotten
        raise SlackError("expired_url")
    original = channel.messages.get(url.message)
    if body.get("delete_original"):
        if original is not None:
            world.delete(channel, original)
        return
    given = _read(body)
    if given.empty:
        raise SlackError("no_text")
    if body.get("replace_original") and original is not None:
        fields: Json = {"text": given.text or "", "blocks": given.blocks, "attachments": given.attachments}
        world.change(channel, original, told=True, **fields)
        return
    alone = body.get("response_type", "ephemeral") != "in_channel"
    if channel.archived and not alone:
        raise SlackError("is_archived")
    fields = given.fields() | content.author(world)
    parent = channel.messages.get(str(body.get("thread_ts") or ""))
    if parent is not None:
        fields["thread_ts"] = parent.get("thread_ts") or parent["ts"]
    if alone:
        fields["ephemeral_for"] = url.user
    message = world.post(channel, fields)
    url.message = url.message or message["ts"]
