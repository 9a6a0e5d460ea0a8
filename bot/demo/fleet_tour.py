"""The scenes of `supervisor demo --fleet --tour`: commands to many hosts, and a host that dies and comes back."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bot.demo.fleet import ADDRESSES, HOSTS
from bot.demo.guide import Guide
from bot.demo.stage import CHANNEL, OPERATOR
from bot.demo.tour import Scene, verified
from supervisor_core.daemon.control.client import ask

LOST = HOSTS[-1]


async def status(guide: Guide) -> None:
    """Check all hosts"""
    await guide.asks(OPERATOR, "/supervisor status", *ADDRESSES)
    guide.expect("the states of the workers", set((await _states(guide)).values()), {"running"})
    guide.page.holds("one bot answers for three hosts")


async def restart(guide: Guide) -> None:
    """Restart a worker on every host, one after the other"""
    before = await _pids(guide)
    text = "/supervisor restart */OrionMX new settings"
    guide.page.types(OPERATOR, text)
    await guide.follows(await guide.person(OPERATOR).slash(text))
    after = await _pids(guide)
    guide.expect("the workers with a new process", [name for name in before if before[name] != after[name]], [*before])
    guide.page.holds("each host has a new process of its worker")


async def pause(guide: Guide) -> None:
    """One command to all hosts is one message"""
    mark = len(guide.stage.slack.channel(CHANNEL).channel.messages)
    text = "/supervisor pause all maintenance"
    guide.page.types(OPERATOR, text)
    card = await guide.person(OPERATOR).slash(text)
    await guide.follows(card)
    guide.expect("the states of the workers", set((await _states(guide)).values()), {"stopped"})
    found = len(guide.stage.slack.channel(CHANNEL).channel.messages) - mark
    guide.expect("the number of new messages", found, 1)
    guide.page.holds(f"one message in #{CHANNEL} for {len(HOSTS)} hosts")
    text = "/supervisor resume all"
    guide.page.types(OPERATOR, text)
    await guide.follows(await guide.person(OPERATOR).slash(text))
    guide.expect("the states of the workers", set((await _states(guide)).values()), {"running"})


async def lost(guide: Guide) -> None:
    """A host dies, and comes back"""
    host = guide.stage.hosts[LOST]
    guide.page.runs(f"kill -9 {host.daemon.pid}  # the daemon of {LOST}")
    await host.daemon.kill()
    begun = time.monotonic()
    card = await guide.message_with("Acknowledge")
    await card.shows(LOST)
    guide.shows(card, f"(after {time.monotonic() - begun:.0f} s)")
    await guide.asks(OPERATOR, f"/supervisor status {LOST}/OrionMX", "unresponsive")
    guide.page.runs(f"supervisor daemon start  # on {LOST}")
    await host.daemon.start({})
    await card.button("Acknowledge").is_gone()
    guide.shows(card)
    guide.page.holds("one alert told it, and closed on its own; the worker ran on")


async def _states(guide: Guide) -> dict[str, str]:
    return {each["id"]: each["state"] for each in await _workers(guide)}


async def _pids(guide: Guide) -> dict[str, int]:
    return {each["id"]: each["pid"] for each in await _workers(guide)}


async def _workers(guide: Guide) -> list[dict[str, Any]]:
    """The workers as each host's own daemon reports them, under their addresses."""
    found: list[dict[str, Any]] = []
    for name, host in guide.stage.hosts.items():
        seen = await asyncio.to_thread(ask, str(host.home.state_dir), {"do": "status"})
        found += [{**each, "id": f"{name}/{each['id']}"} for each in seen["workers"]]
    return found


FLEET_SCENES: tuple[Scene, ...] = (status, restart, pause, lost, verified)
"""In order. The first line of each docstring is the scene's title."""
