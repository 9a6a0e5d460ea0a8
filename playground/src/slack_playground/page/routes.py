"""All addresses of the playground on one aiohttp application, for this machine only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from slack_playground.page.person_actions import PersonHttp
from slack_playground.page.world_actions import WorldHttp
from slack_playground.people import transcript
from slack_playground.values import LOCAL, Json, PlaygroundError, number
from slack_playground.web_api.files import for_page
from slack_playground.world.world import World

PAGE = Path(__file__).parent / "static"
LARGEST_BODY = 1_100_000_000  # bytes: Slack takes files of 1 GB
KEEP_ALIVE = 15.0  # seconds between comments in a quiet stream
SHOWN = 200  # messages of a channel in the state
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@web.middleware
async def only_here(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse what another page in the browser sends us, and names that only pretend to be this machine."""
    if not _is_local(request):
        return _refused(
            HTTPStatus.FORBIDDEN, "forbidden", "The playground only accepts requests from its own page on this machine."
        )
    try:
        return await handler(request)
    except PlaygroundError as error:
        return _refused(error.status, error.error, error.message, **error.fields)


def _is_local(request: web.Request) -> bool:
    origin = request.headers.get("Origin")
    # Another page's <img> or link carries no Origin, and the Web API takes GET.
    elsewhere = request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    if elsewhere and (request.path.startswith("/api/") or request.headers.get("Sec-Fetch-Mode") != "navigate"):
        return False
    try:
        host = urlsplit(f"//{request.host}").hostname
        return host in LOCAL and (not origin or urlsplit(origin).netloc == request.host)
    except ValueError:
        return False


def _refused(status: int, error: str, message: str, **fields: object) -> web.Response:
    return web.json_response({"ok": False, "error": error, "message": message, **fields}, status=status)


class PageHttp:
    def __init__(self, world: World, people: PersonHttp, things: WorldHttp) -> None:
        self._world, self._people, self._things = world, people, things
        self._streams: set[asyncio.Task[object] | None] = set()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._static),
            web.get("/page/{path:.+}", self._static),
            web.get("/archives/{channel}/{message}", self._permalink),
            web.get("/_playground/state", self._state),
            web.get("/_playground/messages", self._messages),
            web.get("/_playground/conversation", self._conversation),
            web.get("/_playground/journal", self._journal),
            web.get("/_playground/events", self._events),
            web.get("/_playground/faults", self._faults),
            web.delete("/_playground/faults", self._clear),
            web.delete("/_playground/faults/{fault}", self._clear),
            web.post("/_playground/{action}", self._do),
        ]

    async def _static(self, request: web.Request) -> web.StreamResponse:
        path = (PAGE / request.match_info.get("path", "index.html").replace("\0", "")).resolve()
        if not path.is_relative_to(PAGE.resolve()) or not path.is_file():
            raise web.HTTPNotFound
        headers = {"Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        return web.FileResponse(path, headers=headers)

    async def _permalink(self, request: web.Request) -> web.StreamResponse:
        digits = request.match_info["message"].removeprefix("p")
        raise web.HTTPFound(f"/#{request.match_info['channel']}/{digits[:-6]}.{digits[-6:]}")

    async def _do(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except (ValueError, LookupError):
            body = None
        if not isinstance(body, dict):
            raise PlaygroundError("invalid_json", "The body must be a JSON object.")
        name = request.match_info["action"]
        if name in self._things.actions:
            return web.json_response(await self._things.actions[name](body))
        if name in self._people.actions:
            return web.json_response(await self._people.do(name, body))
        known = ", ".join([*self._people.actions, *self._things.actions])
        words = f"There is no action {name!r}; there are {known}."
        raise PlaygroundError("unknown_action", words, status=HTTPStatus.NOT_FOUND)

    async def _state(self, request: web.Request) -> web.StreamResponse:
        world, space = self._world, self._world.workspace
        shown = max(0, int(number(request.query.get("messages"), "messages", SHOWN)))
        messages = {c.id: list(c.messages.values())[-shown:] if shown else [] for c in space.channels.values()}
        return web.json_response(
            {
                "ok": True,
                "seq": world.feed.seq,
                "now": world.clock.now(),
                "team": space.team,
                "app": world.app_json(),
                "users": [user.to_json() for user in space.users.values()],
                "usergroups": [group.to_json() for group in space.groups.values()],
                "channels": [channel.to_json() for channel in space.channels.values()],
                "messages": messages,
                "more": {c.id: len(c.messages) > shown for c in space.channels.values()},
                "homes": space.homes,
                "modals": {user: views for user, views in space.modals.items() if views},
                "faults": world.faults.to_json(),
                "files": [for_page(file) for file in space.files.values() if file.ready],
            }
        )

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        channel = self._world.workspace.channel(request.query.get("channel"))
        thread, before = request.query.get("thread_ts"), request.query.get("before")
        limit = max(1, int(number(request.query.get("limit"), "limit", SHOWN)))
        found = channel.thread(thread) if thread else list(channel.messages.values())
        earlier = [message for message in found if not before or message["ts"] < before]
        return web.json_response({"ok": True, "messages": earlier[-limit:], "more": len(earlier) > limit})

    async def _conversation(self, request: web.Request) -> web.StreamResponse:
        space = self._world.workspace
        channel = space.channel(request.query.get("channel"))
        viewer = space.user(request.query["as"]) if "as" in request.query else None
        body = _encoded("\n".join(transcript.conversation(channel, viewer, space)) + "\n")
        return web.Response(body=body, content_type="text/plain", charset="utf-8")

    async def _journal(self, request: web.Request) -> web.StreamResponse:
        since, kind = int(number(request.query.get("since"), "since")), request.query.get("kind")
        last = max(0, int(number(request.query.get("last"), "last")))
        entries = self._world.journal.select(kind=kind, since=since)[-last:]
        text = "".join(json.dumps(entry, ensure_ascii=False, default=str) + "\n" for entry in entries)
        return web.Response(body=_encoded(text), content_type="application/x-ndjson", charset="utf-8")

    async def _faults(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"ok": True, "faults": self._world.faults.to_json()})

    async def _clear(self, request: web.Request) -> web.StreamResponse:
        self._world.faults.clear(request.match_info.get("fault"))
        return await self._faults(request)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        since = request.headers.get("Last-Event-ID") or request.query.get("since")
        queue = self._world.feed.listen(int(number(since, "since")) if since else None)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        task = asyncio.current_task()
        self._streams.add(task)
        try:
            await response.prepare(request)
            await response.write(b": the playground\n\n")
            while True:
                await response.write(await _next(queue))
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            self._streams.discard(task)
            self._world.feed.forget(queue)

    def close(self) -> None:
        for task in list(self._streams):
            if task is not None:
                task.cancel()


def _encoded(text: str) -> bytes:
    """Half a character, which JSON can carry and UTF-8 cannot, stays as JSON writes it."""
    return text.encode(errors="backslashreplace")


async def _next(queue: asyncio.Queue[Json]) -> bytes:
    """The next events as one chunk, or a comment so that a dead reader is noticed."""
    try:
        events = [await asyncio.wait_for(queue.get(), KEEP_ALIVE)]
    except TimeoutError:
        return b": still here\n\n"
    while not queue.empty():
        events.append(queue.get_nowait())
    lines = (f"id: {event['seq']}\ndata: {json.dumps(event, ensure_ascii=False, default=str)}\n\n" for event in events)
    return _encoded("".join(lines))
