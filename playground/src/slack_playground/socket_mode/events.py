"""The Events API: delivers each event until it is acknowledged or its retries are used up."""

from __future__ import annotations

import asyncio

from slack_playground.request_url.delivery import Delivery
from slack_playground.socket_mode.sockets import ACKED, NOBODY
from slack_playground.values import Json
from slack_playground.world.manifest import ANY
from slack_playground.world.world import World


class Events:
    """Hands events to the app, each in a task of its own, and again where no ack came."""

    def __init__(self, world: World, delivery: Delivery) -> None:
        self._world, self._delivery = world, delivery
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
        if ANY in self._world.app.events and (self._world.connections() or self._delivery.request_url):
            name = event["subscription"]
            self._world.warn(f"{name} was delivered without a subscription. In Slack, subscribe to {name}.")
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
            **world.installation.event(world.bot.id),
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
        outcome = await self._delivery.deliver("events_api", payload, answers=False)
        again = self._world.faults.strike("socket", "redeliver") is not None
        for attempt, wait in enumerate(waits, start=1):
            if (outcome.outcome == ACKED and not again) or outcome.final:
                return
            again = False
            await asyncio.sleep(wait)
            if outcome.outcome == NOBODY:
                # Nobody was there: wait for somebody for as long as Slack would wait for its next attempt.
                patience = waits[attempt] if attempt < len(waits) else waits[-1]
                await self._world.feed.until(self._world.connections, patience)
            retry = attempt, outcome.reason
            outcome = await self._delivery.deliver("events_api", payload, answers=False, retry=retry)

    async def close(self) -> None:
        """Give up what is on its way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
