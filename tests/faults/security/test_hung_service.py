"""A service that hangs: nobody has to notice it, for it stops to beat; and a stop that had to cut it off says so."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.common import service as services
from supervisor_core.common.service import Service, ServiceRegistry, ServiceReport, ServiceState
from supervisor_core.daemon import ownership as runtime_file
from supervisor_core.daemon.app import Application
from supervisor_core.daemon.control.client import NotRunningError, ask
from supervisor_core.daemon.services.queue_processor import QueueProcessor
from tests.support.daemon.reconciliation import a_world
from tests.support.waiting import wait_until


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition, 10, "the service is so")


class HangingService(Service):
    """Hangs in its work until it is released, and beats at each round."""

    name = "runtime_file"

    def __init__(self, release: asyncio.Event) -> None:
        super().__init__()
        self._release = release

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            self.pulse.beat(within=0.05)
            await self._release.wait()
            await services.wait_until(None, stopping, 0.05)


def story(work: Callable[[ServiceRegistry, asyncio.Event, asyncio.Event], Awaitable[None]]) -> None:
    """A real service that hangs at its first note, until it is released."""

    async def whole() -> None:
        release, stopping = asyncio.Event(), asyncio.Event()
        registry = ServiceRegistry([HangingService(release)])
        await registry.start(stopping)
        await work(registry, stopping, release)

    asyncio.run(whole())


def only(registry: ServiceRegistry) -> ServiceReport:
    (report,) = registry.reports()
    return report


def test_a_service_that_hangs_in_run_is_degraded_and_its_last_beat_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PATIENCE_SECONDS", 0.1)

    async def work(registry: ServiceRegistry, stopping: asyncio.Event, release: asyncio.Event) -> None:
        assert only(registry).health == "healthy"
        await until(lambda: only(registry).late)
        first, second = only(registry), only(registry)
        assert (first.state, first.health) == (ServiceState.RUNNING, "degraded")
        assert first.reason.startswith("unresponsive for ")
        assert first.last_health_at == second.last_health_at, "asking stamps nothing"
        release.set()
        await until(lambda: not only(registry).late)
        assert only(registry).health == "healthy"
        stopping.set()
        assert await registry.stop(5) == []

    story(work)


def test_a_service_that_had_to_be_cut_off_says_so_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "CANCEL_SECONDS", 0.1)

    async def work(registry: ServiceRegistry, stopping: asyncio.Event, release: asyncio.Event) -> None:
        stopping.set()
        assert await registry.stop(0.05) == ["runtime_file"]
        assert only(registry).as_json()["state"] == "error"
        assert only(registry).last_error == "shutdown timeout"

    story(work)


def test_a_daemon_whose_queue_hangs_says_so_in_status_in_its_file_and_to_the_watchdog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real daemon; its queue hangs in a thread, as it does while a disk does."""
    release = threading.Event()

    def hangs(_self: QueueProcessor) -> set[str]:
        release.wait(30)
        return set()

    async def life(daemon: Application, state_dir: Path, heard: socket.socket) -> None:
        def service() -> dict[str, Any]:
            services: list[dict[str, Any]] = ask(str(state_dir), {"do": "status"})["services"]
            return next(each for each in services if each["name"] == "queue_processor")

        def noted() -> list[str]:
            services = runtime_file.read(state_dir).get("services", ())
            return [each["health"] for each in services if each["name"] == "queue_processor"]

        def told() -> str:
            return heard.recv(4096).decode()

        running = asyncio.create_task(daemon.run())
        try:
            await until(lambda: answers(state_dir) and service()["health"] == "degraded")
            report = await asyncio.to_thread(service)
            assert (report["state"], report["reason"].partition(" for ")[0]) == ("running", "unresponsive")
            await until(lambda: told().startswith("STATUS=unhealthy: queue_processor: unresponsive for "))
            await until(lambda: noted() == ["degraded"])
        finally:
            release.set()
            await asyncio.to_thread(ask, str(state_dir), {"do": "stop"})
            assert await running == 0

    monkeypatch.setattr(QueueProcessor, "_work", hangs)
    monkeypatch.setattr(services, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr("supervisor_core.daemon.status.WRITE_INTERVAL_SECONDS", 0.1)
    with (
        a_world(tmp_path, monkeypatch) as world,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard,
    ):
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        asyncio.run(life(Application(world.parts), world.parts.host.config.state_dir, heard))


def answers(state_dir: Path) -> bool:
    try:
        return bool(ask(str(state_dir), {"do": "status"}))
    except NotRunningError:
        return False
