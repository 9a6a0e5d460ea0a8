"""The routes of the HTTP service. Imported with the first connection, because aiohttp is slow to import."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from aiohttp import web

from supervisor_core.web.incoming import MOST_BYTES, PATH, IncomingRequests
from supervisor_core.web.page import content, page
from supervisor_core.web.service import HEADERS, REFRESH_SECONDS, SETTLE_SECONDS, STATIC, TYPES, WebService

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
CHANGED = b"data: changed\n\n"


class Routes:
    """The handlers of the service's requests."""

    def __init__(self, service: WebService) -> None:
        self._service = service
        self._incoming = IncomingRequests(service.take_alerts, service.token) if service.take_alerts else None

    def application(self) -> web.Application:
        """All routes, behind the check of the `Host` header."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            with self._service.request_on(request.transport):
                if not self._service.is_ours(request.host):
                    words = "This address isn't one of the supervisor's.\n"
                    raise web.HTTPMisdirectedRequest(text=words, headers=HEADERS)
                response = await handler(request)
                if not response.prepared:
                    response.headers.update(HEADERS)
                return response

        made = web.Application(middlewares=[guarded], client_max_size=MOST_BYTES)
        if self._incoming is not None:
            made.add_routes([web.post(PATH, self._incoming.handle)])
        made.add_routes(
            [
                web.get("/", self._page),
                web.get("/content", self._content),
                web.get("/changes", self._changes),
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthy),
                web.get("/readyz", self._ready),
                web.get("/{name:(?:style\\.css|page\\.js)}", self._static),
            ]
        )
        return made

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self._service.metrics(), headers={"Content-Type": PLAIN})

    async def _healthy(self, _request: web.Request) -> web.Response:
        """The daemon's event loop answers."""
        return web.Response(text="ok\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        facts = await self._service.facts()
        if facts.ready:
            return web.Response(text="ready\n")
        return web.Response(status=503, text=f"{facts.problem or 'starting'}\n")

    async def _page(self, _request: web.Request) -> web.Response:
        return web.Response(text=page(await self._service.facts()), content_type="text/html")

    async def _content(self, _request: web.Request) -> web.Response:
        return web.Response(text=content(await self._service.facts()), content_type="text/html")

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: a line whenever the content may have changed."""
        if not self._service.enter():
            raise web.HTTPServiceUnavailable(text="Too many pages are open.\n")
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                async with self._service.changes() as changed:
                    while True:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(REFRESH_SECONDS):
                                await changed.wait()
                        await asyncio.sleep(SETTLE_SECONDS)
                        changed.clear()
                        await response.write(CHANGED)
        finally:
            self._service.leave()
        return response

    async def _static(self, request: web.Request) -> web.Response:
        path = STATIC / request.match_info["name"]
        return web.Response(body=path.read_bytes(), content_type=TYPES[path.suffix], charset="utf-8")
