"""The server: everything of one playground put together, started and stopped."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from slack_playground.page.person_actions import PersonHttp
from slack_playground.page.routes import LARGEST_BODY, PageHttp, only_here
from slack_playground.page.world_actions import WorldHttp
from slack_playground.people.conversations import People
from slack_playground.people.interactions import Acting
from slack_playground.socket_mode.events import Events
from slack_playground.socket_mode.sockets import Sockets
from slack_playground.values import PlaygroundError, Timings
from slack_playground.web_api.bot_endpoints import BotHttp
from slack_playground.web_api.dispatcher import Dispatcher
from slack_playground.world.grants import Grants
from slack_playground.world.manifest import App
from slack_playground.world.world import World

HOST = "127.0.0.1"


class Server:
    def __init__(
        self,
        app: App,
        *,
        port: int = 0,
        timings: Timings | None = None,
        journal: Path | None = None,
        rate_limits: bool = False,
        strict: bool = False,
        latency: float = 0.0,
    ) -> None:
        self.world = World(app, timings, journal=journal, rate_limits=rate_limits, latency=latency)
        self.grants = Grants(self.world)
        self.sockets = Sockets(self.world, self.grants)
        self.events = Events(self.world, self.sockets)
        self.people = People(self.world, self.grants, self.sockets)
        self.acting = Acting(self.world, self.grants, self.sockets, self.people)
        self._port = port
        self._dispatcher = Dispatcher(self.world, self.grants, strict=strict)
        person_http = PersonHttp(self.world, self.people, self.acting)
        self._page = PageHttp(self.world, person_http, WorldHttp(self.world, self.sockets))
        self._runner: web.AppRunner | None = None

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[only_here], client_max_size=LARGEST_BODY)
        bot = BotHttp(self.world, self.grants)
        application.add_routes(
            [
                web.route("*", "/api/{method}", self._dispatcher.handle),
                web.get("/link/", self.sockets.handle),
                web.post("/commands/{team}/{key}", bot.response_url),
                web.post("/actions/{team}/{key}", bot.response_url),
                web.post("/app/{team}/{key}", bot.response_url),
                web.post("/upload/v1/{file}", bot.upload),
                web.get("/files/{file}/{name}", bot.file),
                *self._page.routes(),
            ]
        )
        return application

    async def start(self) -> None:
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self._port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            words = f"Port {self._port} can't be used: {error.strerror}. Try another --port, or 0 for any free port."
            raise PlaygroundError("port", words, status=HTTPStatus.INTERNAL_SERVER_ERROR) from error
        host, port = self._runner.addresses[0][:2]
        self.world.base_url = f"http://{host}:{port}"

    async def stop(self) -> None:
        await self.events.close()
        self._page.close()
        await self.sockets.close()
        if self._runner:
            await self._runner.cleanup()
        self.world.journal.close()
