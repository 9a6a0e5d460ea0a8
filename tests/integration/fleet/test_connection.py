"""The connection to a real server: storing, pulling in order, asking, reconnecting, and TLS."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from supervisor_core.common.errors import TemporaryError
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.connection import FleetConnection, FleetMessage, NoAnswer
from supervisor_core.fleet.transport.server import reload_server
from supervisor_core.fleet.transport.streams import call, prepare_host, prepare_stream, remove_host, require_durability
from supervisor_core.fleet.transport.subjects import (
    COMMANDS,
    ask_subject,
    command_subject,
)
from supervisor_core.host.process_facts.signals import send, wait_exit
from tests.support.daemon.fleets import PATIENCE, NatsFleet, a_fleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsFleet]:
    with a_fleet(tmp_path_factory.mktemp("nats"), ["web", "db", "gone", "late"]) as made:
        yield made


def test_commands_arrive_in_order_one_at_a_time_and_once(fleet: NatsFleet) -> None:
    async def main() -> None:
        async with fleet.hub() as hub, fleet.host("web") as web:
            for number in (1, 2, 2, 3):
                await hub.publish_durably(command_subject("web"), b"%d" % number, f"command-{number}")
            found: list[bytes] = []
            while got := await web.pull(COMMANDS, "web", seconds=0.3 if len(found) == 3 else PATIENCE):
                assert len(got) == 1, "the next one comes when this one is acknowledged"
                found.append(got[0].data)
                await got[0].acknowledge()
            assert found == [b"1", b"2", b"3"]

    asyncio.run(main())


def test_a_command_that_isn_t_acknowledged_comes_again_before_the_next(fleet: NatsFleet) -> None:
    async def main() -> None:
        async with fleet.hub() as hub, fleet.host("db") as db:
            for number in (1, 2):
                await hub.publish_durably(command_subject("db"), b"%d" % number, f"db-{number}")
            [first] = await db.pull(COMMANDS, "db")
            await first.redeliver()
            [again] = await db.pull(COMMANDS, "db")
            assert again.data == b"1"
            await again.acknowledge()
            [second] = await db.pull(COMMANDS, "db")
            assert second.data == b"2"
            await second.acknowledge()

    asyncio.run(main())


def test_a_pull_outlives_a_reload_of_the_server_and_none_of_an_earlier_connection_takes_a_command(
    fleet: NatsFleet,
) -> None:
    """A command that the server delivers to nobody comes again only after half a minute."""

    async def main() -> None:
        async with fleet.hub() as hub:
            for number in range(2):
                async with fleet.host("late") as late:
                    pulling = asyncio.create_task(late.pull(COMMANDS, "late"))
                    await asyncio.sleep(0.1)  # the server has the request
                    await reload_server(hub)
                    await hub.publish_durably(command_subject("late"), b"x", f"late-{number}")
                    [command] = await asyncio.wait_for(pulling, PATIENCE)
                    await command.acknowledge()
                    pulling = asyncio.create_task(late.pull(COMMANDS, "late"))
                    await asyncio.sleep(0.1)
                    pulling.cancel()

    asyncio.run(main())


def test_a_host_answers_the_hub_and_an_absent_one_is_noticed_at_once(fleet: NatsFleet) -> None:
    async def main() -> None:
        async def answer(message: FleetMessage) -> None:
            await message.respond(message.data.upper())

        async with fleet.hub() as hub, fleet.host("web") as web:
            await web.subscribe(ask_subject("web"), answer)
            while True:  # until the server knows of it
                with suppress(NoAnswer):
                    await hub.request(ask_subject("web"), b"")
                    break
            assert await hub.request(ask_subject("web"), b"status") == b"STATUS"
            with pytest.raises(NoAnswer, match="nobody is connected"):
                await hub.request(ask_subject("late"), b"status", PATIENCE)

    asyncio.run(main())


def test_a_server_that_is_killed_loses_nothing_and_the_connection_comes_back(tmp_path: Path) -> None:
    async def main(fleet: NatsFleet) -> None:
        async def answer(message: FleetMessage) -> None:
            await message.respond(b"here")

        async with fleet.hub() as hub, fleet.host("web") as web:
            await web.subscribe(ask_subject("web"), answer)
            await hub.publish_durably(command_subject("web"), b"restart", "command-1")
            running = fleet.server.identity
            assert running is not None
            send(running, signal.SIGKILL)
            assert wait_exit(running, PATIENCE)
            while hub.connected or web.connected:  # noqa: ASYNC110 (the connections tell nobody)
                await asyncio.sleep(0.01)
            with pytest.raises(TemporaryError, match=f"127.0.0.1:{fleet.port}"):
                await hub.publish_durably(command_subject("web"), b"pause", "command-2")
            fleet.server.start()
            await asyncio.gather(hub.wait_connected(PATIENCE), web.wait_connected(PATIENCE))
            assert (await hub.publish_durably(command_subject("web"), b"restart", "command-1"))["duplicate"]
            [command] = await web.pull(COMMANDS, "web")
            assert command.data == b"restart"
            assert await hub.request(ask_subject("web"), b"") == b"here", "it has subscribed again"

    with a_fleet(tmp_path, ["web"]) as fleet:
        asyncio.run(main(fleet))


def test_streams_and_consumers_may_be_prepared_again_and_a_host_s_be_removed(fleet: NatsFleet) -> None:
    async def main() -> None:
        async with fleet.hub() as hub:
            for _ in range(2):
                await prepare_stream(hub)
                await prepare_host(hub, "gone")
            await hub.publish_durably(command_subject("gone"), b"x", "gone-1")
            for _ in range(2):
                await remove_host(hub, "gone")
            subjects = (await call(hub, f"STREAM.INFO.{COMMANDS}", {"subjects_filter": "fleet.commands.gone"}))["state"]
            assert "fleet.commands.gone" not in subjects.get("subjects", {})
            async with fleet.host("web") as web:
                await remove_host(hub, "web")
                with pytest.raises(NoAnswer):  # at once, and not as if no command were there
                    await web.pull(COMMANDS, "web", PATIENCE)
                await prepare_host(hub, "web")

    asyncio.run(main())


async def refused(connection: FleetConnection, reason: str) -> None:
    """Wait until the connection isn't up for this reason."""
    async with asyncio.timeout(PATIENCE):
        while reason not in connection.problem:
            assert not connection.connected
            await asyncio.sleep(0.01)


def test_a_key_that_the_server_doesn_t_know_is_refused_in_words(fleet: NatsFleet) -> None:
    async def main() -> None:
        async with FleetConnection(fleet.url, KeyPair.new(), name="x", inbox="_X") as stranger:
            await refused(stranger, "The server refused this key")

    asyncio.run(main())


def test_with_tls_only_a_server_with_the_right_certificate_is_used(tmp_path: Path) -> None:
    async def main(fleet: NatsFleet) -> None:
        async with fleet.hub() as hub:
            await require_durability(hub)
            await reload_server(hub)
        async with FleetConnection(fleet.url, fleet.hub_keys, name="x", inbox="_HUB") as doubtful:
            await refused(doubtful, "certificate isn't valid")

    with a_fleet(tmp_path, tls=True) as fleet:
        asyncio.run(main(fleet))
