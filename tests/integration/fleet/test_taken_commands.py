"""A host takes the hub's commands from a real server: a repeat does nothing, and only a stranger's is an attack."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.service import Blocking
from supervisor_core.fleet import host
from supervisor_core.fleet.host import FleetCommands, RefusedMessages
from supervisor_core.fleet.keys import CommandMessage
from supervisor_core.fleet.rows import REFUSED
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.streams import call
from supervisor_core.fleet.transport.subjects import COMMANDS, command_subject, host_inbox
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log, jobs
from tests.support.daemon.fleets import PATIENCE, NatsFleet, a_fleet
from tests.support.storage.ledger_rows import opened


def a_message() -> CommandMessage:
    now, issuer = datetime.now(UTC), Issuer("slack:T0/U0OPERATOR", "anna")
    pause = Command("pause", "fetcher", ("fetcher",), {}, "hotfix", issuer=issuer, task_id="task_1")
    return CommandMessage("web", pause, "slack", now, now + timedelta(minutes=10))


async def all_taken(hub: FleetConnection) -> None:
    """Wait until every command is acknowledged."""
    async with asyncio.timeout(PATIENCE):
        while (await call(hub, f"STREAM.INFO.{COMMANDS}"))["state"]["messages"]:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)


def counts(ledger: Ledger) -> tuple[int, int]:
    """The jobs, and the refused messages in the audit trail."""
    filed = select(func.count()).select_from(jobs).scalar_subquery()
    refused = select(func.count()).select_from(audit_log).where(audit_log.c.action == REFUSED).scalar_subquery()
    row = ledger.read(lambda look: look.execute(select(filed, refused)).one())
    return row[0], row[1]


def test_a_command_that_the_hub_sends_again_is_no_attack_and_a_repeated_message_is_one(tmp_path: Path) -> None:
    """The hub does so after a crash, and the server doesn't know the command any more once its host has it."""

    async def main(fleet: NatsFleet, ledger: Ledger) -> None:
        told, stopping, blocking = list[Collection[str]](), asyncio.Event(), Blocking()
        hub_key = fleet.hub_keys.public_key
        refusals = RefusedMessages(ledger, blocking)
        async with fleet.hub() as hub, fleet.host("web") as web:
            service = FleetCommands(ledger, blocking, web, hub_key, told.append, bool, refusals)
            running = asyncio.create_task(service.run(stopping))
            first, again = (a_message().encode(fleet.hub_keys) for _ in range(2))
            for number, (data, expected) in enumerate([(first, (1, 0)), (again, (1, 0)), (first, (1, 1))]):
                await hub.publish_durably(command_subject("web"), data, str(number))
                await all_taken(hub)
                assert counts(ledger) == expected
            stopping.set()
            await running
        assert told == [{"fetcher"}]

    with a_fleet(tmp_path / "nats", ["web"]) as fleet, opened(tmp_path / "web", "web") as ledger:
        asyncio.run(main(fleet, ledger))


def test_a_host_that_connects_after_its_start_has_no_problem_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pull that waits for the next command takes half a minute. The problem doesn't last so long."""
    monkeypatch.setattr(host, "RETRY_SECONDS", 0.1)

    async def main(fleet: NatsFleet, ledger: Ledger) -> None:
        stopping, blocking = asyncio.Event(), Blocking()
        refusals = RefusedMessages(ledger, blocking)
        web = FleetConnection(fleet.url, fleet.hosts["web"], name="web", inbox=host_inbox("web"))
        service = FleetCommands(ledger, blocking, web, fleet.hub_keys.public_key, lambda _: None, bool, refusals)
        running = asyncio.create_task(service.run(stopping))
        async with asyncio.timeout(PATIENCE):
            while "hasn't connected yet" not in service.problem():  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
            web.start()
            while service.problem():  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
        stopping.set()
        await running
        await web.close()

    with a_fleet(tmp_path / "nats", ["web"]) as fleet, opened(tmp_path / "web", "web") as ledger:
        asyncio.run(main(fleet, ledger))
