"""The route that takes Alertmanager's alerts: a token, a limited size, and a limited rate."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from supervisor_core.alerts.incoming import PayloadError, TooManyAlerts
from supervisor_core.common.errors import SupervisorError

PATH = "/alertmanager"
MOST_BYTES = 512 * 1024
"""The size of a request."""

A_MINUTE, BURST = 120, 30
"""The rate of requests, with or without the right token: so many a minute, after a burst of so many."""

LATER_SECONDS = 10

log = logging.getLogger(__name__)


class IncomingRequests:
    """Answers 200 once the alerts are stored. Where trying again can help, it answers 503, which every version of
    Alertmanager tries again."""

    def __init__(
        self, take: Callable[[bytes], Awaitable[int]], token: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._take = take
        self._token = token.encode()
        self._clock = clock
        self._rooms = {right: (float(BURST), clock()) for right in (True, False)}

    async def handle(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").encode(errors="replace")
        right = hmac.compare_digest(given, b"Bearer " + self._token)
        if not self._has_room(right=right):
            return _later("too many requests")
        if not right:
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"}, text="the token is wrong\n")
        try:
            count = await self._take(await request.read())
        except PayloadError as error:
            log.warning("a request from Alertmanager was refused: %s", error)
            return web.Response(status=400, text=f"{error}\n")
        except (TooManyAlerts, SupervisorError) as error:
            log.warning("a request from Alertmanager can't be taken now: %s", error)
            return _later("it can't be stored now")
        return web.json_response({"taken": count})

    def _has_room(self, *, right: bool) -> bool:
        """Requests with a wrong token have a limit of their own, so they don't use up that of valid ones."""
        now = self._clock()
        room, at = self._rooms[right]
        room = min(room + (now - at) * A_MINUTE / 60, float(BURST))
        self._rooms[right] = (max(room - 1, 0.0) if room >= 1 else room), now
        return room >= 1


def _later(words: str) -> web.Response:
    return web.Response(status=503, headers={"Retry-After": str(LATER_SECONDS)}, text=f"{words}; try again\n")
