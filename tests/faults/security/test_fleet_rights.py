"""A host's key in an attacker's hands, over the raw NATS protocol: no subject beyond its own is open to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.fleet.transport.connection import FleetConnection, FleetMessage, NotPermitted
from supervisor_core.fleet.transport.server import reload_server
from supervisor_core.fleet.transport.streams import call
from supervisor_core.fleet.transport.subjects import COMMANDS, command_subject, next_command_subject
from tests.support.daemon.fleets import PATIENCE, NatsFleet, RawClient, a_fleet

VIOLATION = "Permissions Violation"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsFleet]:
    with a_fleet(tmp_path_factory.mktemp("nats"), ["web", "db"], ["i1"]) as made:

        async def fill() -> None:
            async with made.hub() as hub:
                await hub.publish_durably(command_subject("db"), b"secret", "db-1")

        asyncio.run(fill())
        yield made


@pytest.mark.parametrize(
    "subject",
    [
        "fleet.commands.db",
        "fleet.commands.web",
        "fleet.commands.>",
        "fleet.ask.db",
        "fleet.presence.*",
        "fleet.>",
        "_INBOX_db.>",
        "_HUB.>",
        "_INBOX_*.>",
        "$JS.>",
        "$SYS.>",
        ">",
        "*.*.*",
    ],
)
def test_a_host_can_t_listen_to_anybody_else(fleet: NatsFleet, subject: str) -> None:
    with RawClient(fleet.port, fleet.hosts["web"]) as raw:
        raw.send(f"SUB {subject} 1")
        [answer] = raw.answers()
        assert VIOLATION in answer


@pytest.mark.parametrize(
    "subject",
    [
        "fleet.commands.web",
        "fleet.commands.db",
        "fleet.else.web",
        "fleet.presence.db",
        "fleet.ask.db",
        "fleet.ask.web",
        "fleet.join.i1",
        "_HUB.x",
        "_INBOX_db.x",
        "$JS.API.INFO",
        "$JS.API.STREAM.CREATE.EVIL",
        "$JS.API.STREAM.UPDATE.COMMANDS",
        "$JS.API.STREAM.DELETE.COMMANDS",
        "$JS.API.STREAM.PURGE.COMMANDS",
        "$JS.API.STREAM.INFO.COMMANDS",
        "$JS.API.STREAM.MSG.GET.COMMANDS",
        "$JS.API.STREAM.MSG.DELETE.COMMANDS",
        "$JS.API.DIRECT.GET.COMMANDS",
        "$JS.API.CONSUMER.CREATE.COMMANDS",
        "$JS.API.CONSUMER.CREATE.COMMANDS.evil.fleet.commands.db",
        "$JS.API.CONSUMER.DURABLE.CREATE.COMMANDS.evil",
        "$JS.API.CONSUMER.DELETE.COMMANDS.db",
        "$JS.API.CONSUMER.LIST.COMMANDS",
        "$JS.API.CONSUMER.MSG.NEXT.COMMANDS.db",
        "$JS.ACK.COMMANDS.db.1.1.1.1.1",
        "$SYS.REQ.SERVER.PING.VARZ",
        "$SYS.REQ.SERVER.x.RELOAD",
        "$SYS.REQ.ACCOUNT.FLEET.CONNZ",
    ],
)
def test_a_host_can_t_publish_for_anybody_else_or_administer(fleet: NatsFleet, subject: str) -> None:
    with RawClient(fleet.port, fleet.hosts["web"]) as raw:
        raw.publish(subject, "{}", reply="_INBOX_web.1")
        [answer] = raw.answers()
        assert VIOLATION in answer


def test_a_host_answers_what_it_was_asked_once_and_nothing_else(fleet: NatsFleet) -> None:
    async def ask() -> bytes:
        async with fleet.hub() as hub:
            return await hub.request("fleet.ask.web", b"status", PATIENCE)

    async def main() -> None:
        with RawClient(fleet.port, fleet.hosts["web"]) as raw:
            raw.send("SUB fleet.ask.web 1")
            assert raw.answers() == []
            asked = asyncio.create_task(ask())
            line = await asyncio.to_thread(raw.next_message)
            reply = line.split()[3]
            raw.publish(reply, "fine")
            assert await asked == b"fine"
            raw.publish(reply, "forged later")
            [answer] = [each for each in raw.answers() if each.startswith("-ERR")]
            assert VIOLATION in answer

    asyncio.run(main())


REPLIES = (
    "$JS.API.STREAM.PURGE.COMMANDS",
    "$JS.API.STREAM.DELETE.COMMANDS",
    "$JS.API.CONSUMER.DELETE.COMMANDS.db",
    "$JS.ACK.COMMANDS.db.1.1.1.1.0",
    "fleet.commands.db",
    "fleet.presence.db",
    "fleet.ask.db",
    "_HUB.forged",
)


@pytest.mark.parametrize("through", ["pull", "acknowledgment"])
def test_no_reply_subject_reaches_beyond_the_host_that_names_it(tmp_path: Path, through: str) -> None:
    """The server checks no right to publish on a reply subject, where it answers a pull or an acknowledgment itself."""

    async def main(fleet: NatsFleet) -> None:
        beyond: list[str] = []

        async def overhear(message: FleetMessage) -> None:
            beyond.append(message.subject)

        async with fleet.hub() as hub, fleet.host("db") as db:
            await hub.publish_durably(command_subject("db"), b"secret", "db-1")
            await hub.subscribe("fleet.presence.db", overhear)
            await hub.subscribe("_HUB.forged", overhear)
            await db.subscribe("fleet.ask.db", overhear)
            with RawClient(fleet.port, fleet.hosts["web"]) as raw:
                raw.send("SUB _INBOX_web.> 1")
                for number, reply in enumerate(REPLIES):
                    await hub.publish_durably(command_subject("web"), b"own", f"web-{number}")
                    if through == "pull":
                        for _ in range(2):  # the second one is answered with an empty message
                            raw.publish(next_command_subject("web"), '{"batch":1,"no_wait":true}', reply)
                    else:
                        raw.publish(next_command_subject("web"), '{"batch":1}', "_INBOX_web.1")
                        line = await asyncio.to_thread(raw.next_message)
                        own = next(word for word in line.split() if word.startswith("$JS.ACK"))
                        raw.publish(own, "", reply)
                        raw.publish(own, "")  # the server may have refused the other one
                    raw.answers()
                    answer = await call(hub, f"STREAM.INFO.{COMMANDS}", {"subjects_filter": "fleet.commands.db"})
                    assert answer.get("state", {}).get("subjects") == {"fleet.commands.db": 1}, reply
                    assert {each["name"] for each in await consumers(hub)} == {"web", "db"}, reply
                newest = await call(hub, f"STREAM.MSG.GET.{COMMANDS}", {"last_by_subj": command_subject("db")})
                for delivery in range(5):  # an acknowledgment of its own consumer, with the number of another's message
                    raw.publish(f"$JS.ACK.{COMMANDS}.web.1.{newest['message']['seq']}.{delivery}.0.0", "")
                raw.answers()
            assert beyond == []
            [command] = await db.pull(COMMANDS, "db", PATIENCE)
            assert command.data == b"secret"
            await command.acknowledge()
            left = await call(hub, f"STREAM.INFO.{COMMANDS}", {"subjects_filter": ">"})
            assert "fleet.commands.db" not in left["state"].get("subjects", {})
            if through == "acknowledgment":
                assert left["state"]["messages"] == 0, "its own commands are acknowledged"

    with a_fleet(tmp_path, ["web", "db"]) as fleet:
        asyncio.run(main(fleet))


async def consumers(hub: FleetConnection) -> list[dict[str, str]]:
    found = await call(hub, f"CONSUMER.LIST.{COMMANDS}")
    return list(found.get("consumers", ()))


def test_an_invite_can_ask_to_join_and_do_nothing_else(fleet: NatsFleet) -> None:
    with RawClient(fleet.port, fleet.invites["i1"]) as raw:
        raw.send("SUB _JOIN.i1.> 1")
        raw.publish("fleet.join.i1", "{}", reply="_JOIN.i1.1")
        assert [each for each in raw.answers() if each.startswith("-ERR")] == []
        for subject in ("fleet.join.i2", "fleet.ask.i1", "fleet.commands.web", "fleet.presence.web", "$JS.API.INFO"):
            raw.publish(subject, "{}")
            assert VIOLATION in raw.answers()[0]
        for subject in ("fleet.join.i1", "fleet.>", "_INBOX_web.>", "_HUB.>", "_JOIN.i2.>"):
            raw.send(f"SUB {subject} 2")
            assert VIOLATION in raw.answers()[0]


def test_our_own_connection_says_which_subject_isn_t_permitted(fleet: NatsFleet) -> None:
    async def main() -> None:
        async with fleet.host("web") as web:
            with pytest.raises(NotPermitted, match=r"to use fleet\.commands\.db"):
                await web.publish_durably("fleet.commands.db", b"x", "1", PATIENCE)
            with pytest.raises(NotPermitted):
                await web.request(f"$JS.API.STREAM.INFO.{COMMANDS}", b"", PATIENCE)

    asyncio.run(main())


@pytest.mark.parametrize("change", [{"nkey": "U" + "A" * 55}, {"sig": "AAAA"}, {"nkey": ""}])
def test_without_the_secret_key_nobody_gets_in(fleet: NatsFleet, change: dict[str, str]) -> None:
    refused = pytest.raises(ConnectionError, match="Authorization Violation")
    with RawClient(fleet.port, fleet.hosts["web"], **change) as raw, refused:
        raw.answers()


def test_a_revoked_host_is_cut_off_at_once_and_the_others_are_not(fleet: NatsFleet) -> None:
    async def main() -> None:
        async with fleet.hub() as hub, fleet.host("db") as db:
            with RawClient(fleet.port, fleet.hosts["web"]) as raw:
                assert raw.answers() == []
                del fleet.hosts["web"]
                fleet.write_accounts()
                await reload_server(hub)
                with pytest.raises(ConnectionError):
                    raw.answers()
            assert db.connected
            assert json.loads(await hub.request("$JS.API.INFO", b""))["streams"] == 1

    asyncio.run(main())
