"""The Events API: delivers each event until it is acknowledged or its retries are used up."""

from __future__ import annotations

import asyncio

from slack_playground.socket_mode.sockets import ACKED, NOBODY, Sockets
from slack_playground.values import Json
from slack_playground.world.world import World


class Events:
    """Hands events to the app, each in a task of its own, and again where no ack came."""

    def __init__(self, world: World, sockets: Sockets) -> None:
        self._world, self._sockets = world, sockets
        self._tasks: set[asyncio.Task[None]] = set()
        world.send_event = self.send_event

    def send_event(self, event: Json) -> None:
        """Deliver this, where the app subscribed to it and has the scope, and the bot is in the channel."""
        channel = event["channel"]
        if not self._world.app.subscribes_to(event["subscription"]):
            return
        if channel is not None and self._world.bot.id not in channel.members:
            return
        if not self._world.app.has_scope(*event["scopes"]):
            words = f"{event['subscription']} wasn't delivered: the app needs the scope {' or '.join(event['scopes'])}."
            self._world.warn(words)
            return
        try:
            task = asyncio.get_running_loop().create_task(self._deliver(self._callback(event["event"])))
        except RuntimeError:
            return  # the workspace is still being furnished; nobody is connected yet
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _callback(self, event: Json) -> Json:
        world = self._world
        return {
            "token": "playground",
            "team_id": world.app.team_id,
            "context_team_id": world.app.team_id,
            "context_enterprise_id": None,
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": world.app.team_id,
                    "user_id": world.bot.id,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "api_app_id": world.app.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": world.workspace.new_id("Ev"),
            "event_time": int(world.clock.now()),
            "is_ext_shared_channel": False,
            "event_context": "playground",
        }

    async def _deliver(self, payload: Json) -> None:
        waits = self._world.timings.redelivery
        outcome = (await self._sockets.deliver("events_api", payload, answers=False)).outcome
        again = self._world.faults.strike("socket", "redeliver") is not None
        for attempt, wait in enumerate(waits, start=1):
            if outcome == ACKED and not again:
                return
            again = False
            await asyncio.sleep(wait)
            if outcome == NOBODY:
                # Nobody was there: wait for somebody for as long as Slack would wait for its next attempt.
                patience = waits[attempt] if attempt < len(waits) else waits[-1]
                await self._world.feed.until(self._world.connections, patience)
            outcome = (await self._sockets.deliver("events_api", payload, answers=False, retry=attempt)).outcome

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
