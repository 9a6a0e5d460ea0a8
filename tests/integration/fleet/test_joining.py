"""Joining over a real server: a token works once, and only with the hub that made it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import UsageError
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import (
    FleetMembers,
    JoinRefused,
    JoinService,
    JoinToken,
    apply_members,
    request_join,
)
from supervisor_core.fleet.transport.connection import FleetConnection, FleetUnavailable
from supervisor_core.fleet.transport.streams import call, prepare_host, remove_host
from supervisor_core.fleet.transport.subjects import COMMANDS, command_subject, join_subject
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log
from tests.support.daemon.fleets import PATIENCE, NatsFleet, RawClient, a_fleet

ANNA = Issuer("cli:anna", "anna")


@dataclass
class Hub:
    """A hub with a ledger and a server."""

    fleet: NatsFleet
    ledger: Ledger
    members: FleetMembers

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FleetConnection]:
        async with self.fleet.hub() as connection:
            await JoinService(connection, self.members, self.fleet.folder, self.fleet.hub_keys).start()
            yield connection

    async def token(self, connection: FleetConnection, host: str, age: timedelta = timedelta()) -> JoinToken:
        """What `supervisor fleet invite` hands out."""
        invite = self.members.invite(host, ANNA, datetime.now(UTC) - age)
        await self.apply(connection)
        return JoinToken(self.fleet.url, "", self.fleet.hub_keys.public_key, host, invite.invite_id, invite.keys.seed)

    async def apply(self, connection: FleetConnection) -> None:
        await apply_members(connection, self.members, self.fleet.folder, self.fleet.hub_keys.public_key)

    def refusals(self) -> list[str]:
        query = select(audit_log.c.details_json).where(audit_log.c.action == "REFUSED")
        return list(self.ledger.read(lambda look: look.execute(query).scalars().all()))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    with a_fleet(folder / "nats") as fleet, Ledger(folder / "ledger.db", "hub") as ledger:
        yield Hub(fleet, ledger, FleetMembers(ledger))


def test_a_host_joins_gets_commands_and_is_cut_off_when_it_is_revoked(hub: Hub) -> None:
    async def main() -> None:
        async with hub.running() as connection:
            token, keys = await hub.token(connection, "web"), KeyPair.new()
            await request_join(JoinToken.from_text(token.as_text()), keys, None)
            hub.fleet.hosts["web"] = keys
            async with hub.fleet.host("web") as web:
                await connection.publish_durably(command_subject("web"), b"restart", "1")
                [command] = await web.pull(COMMANDS, "web", PATIENCE)
                assert command.data == b"restart"
                hub.members.revoke("web", ANNA, datetime.now(UTC))
                await hub.apply(connection)
                await remove_host(connection, "web")
                while web.connected:  # noqa: ASYNC110 (the connection tells nobody)
                    await asyncio.sleep(0.01)
            with pytest.raises(FleetUnavailable):
                await web.request("fleet.presence.web", b"")

    asyncio.run(main())


def test_a_token_works_once_and_a_second_use_is_refused_and_in_the_audit_trail(hub: Hub) -> None:
    async def main() -> None:
        async with hub.running() as connection:
            token, keys = await hub.token(connection, "db"), KeyPair.new()
            for _ in range(2):  # the host itself may repeat its request
                await request_join(token, keys, None)
            with pytest.raises(JoinRefused, match="has been used"):
                await request_join(token, KeyPair.new(), None)
            assert any("fleet join db" in each and "has been used" in each for each in hub.refusals())
            assert hub.members.users(datetime.now(UTC))[0]["db"] == keys.public_key

    asyncio.run(main())


def test_the_hub_s_answer_reaches_only_the_account_of_whoever_asks(hub: Hub) -> None:
    """Else who has a token has the hub publish wherever the reply subject says."""

    async def main() -> None:
        async with hub.running() as connection:
            token = await hub.token(connection, "sly")
            await prepare_host(connection, "sly")
            await connection.publish_durably(command_subject("sly"), b"kept", "sly-1")
            with RawClient(hub.fleet.port, KeyPair(token.seed)) as raw:
                for reply in (command_subject("sly"), f"$JS.API.STREAM.PURGE.{COMMANDS}"):
                    raw.publish(join_subject(token.invite), "{}", reply)
                raw.answers()
                with pytest.raises(JoinRefused):
                    await request_join(replace(token, host="other"), KeyPair.new(), None)
            answer = await call(connection, f"STREAM.INFO.{COMMANDS}", {"subjects_filter": command_subject("sly")})
            assert answer["state"]["subjects"] == {command_subject("sly"): 1}

    asyncio.run(main())


def test_a_host_waits_for_a_hub_that_is_still_starting(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with hub.fleet.hub() as connection:
            token, keys = await hub.token(connection, "early"), KeyPair.new()
            joining = asyncio.create_task(request_join(token, keys, None))
            while "asking again" not in caplog.text:
                assert not joining.done(), joining
                await asyncio.sleep(0.01)
            await JoinService(connection, hub.members, hub.fleet.folder, hub.fleet.hub_keys).start()
            await joining
            assert hub.members.users(datetime.now(UTC))[0]["early"] == keys.public_key

    caplog.set_level(logging.INFO)
    asyncio.run(main())


def test_a_token_is_for_one_host_with_a_new_key_and_its_hub_alone(hub: Hub) -> None:
    async def main() -> None:
        async with hub.running() as connection:
            token = await hub.token(connection, "app")
            for changed, keys, reason in (
                (replace(token, host="\ud800"), KeyPair.new(), "isn't a request"),
                (replace(token, host="other"), KeyPair.new(), "is for app"),
                (token, hub.fleet.hub_keys, "isn't new"),
                (token, KeyPair(token.seed), "isn't new"),
                (replace(token, hub_key=KeyPair.new().public_key), KeyPair.new(), "isn't signed by the hub"),
            ):
                with pytest.raises(JoinRefused, match=reason):
                    await request_join(changed, keys, None)

    asyncio.run(main())


def test_a_damaged_token_is_refused_without_being_repeated(tmp_path: Path) -> None:
    for text in ("", "fleet1-", "fleet1-e30", "junk", "fleet1-" + "é"):
        with pytest.raises(UsageError, match="isn't a token") as caught:
            JoinToken.from_text(text)
        assert not text or text not in str(caught.value)
