"""Socket Mode as Slack does it: one connection for each envelope, three seconds, redelivery, refresh, pings."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from playground.tests.support import apps
from slack_playground import NotSeen, Playground, Timings

SHORT = Timings(ack=0.2, redelivery=(0.0, 0.05, 0.1))


async def connect(slack: Playground, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    socket = await session.ws_connect(await address(slack, session))
    assert (await socket.receive_json())["type"] == "hello"
    return socket


async def address(slack: Playground, session: aiohttp.ClientSession) -> str:
    headers = {"Authorization": f"Bearer {slack.app_token}"}
    async with session.post(slack.api_url + "apps.connections.open", headers=headers) as answer:
        return str((await answer.json())["url"])


async def test_each_envelope_goes_to_one_of_the_open_connections(slack: Playground):
    app = apps.async_app(slack)

    @app.command("/ping")
    async def ping(ack):
        await ack("pong")

    async with apps.running(slack, app, connections=2):
        operator = slack.user("operator")
        for _ in range(6):
            await operator.slash("/ping")
        used = [entry["connection"] for entry in slack.journal("envelope")]
        assert len(used) == 6
        assert set(used) == {1, 2}


@pytest.mark.playground(timings=SHORT)
async def test_a_command_acknowledged_too_late_fails_for_its_user_and_is_not_sent_again(slack: Playground):
    app = apps.async_app(slack)

    @app.command("/slow")
    async def slow(ack):
        await asyncio.sleep(0.4)
        await ack("too late")

    async with apps.running(slack, app):
        operator = slack.user("operator")
        await operator.slash("/slow", expect="operation_timeout")
        await operator.sees('/slow failed with the error "operation_timeout"')
        await operator.does_not_see("too late")
        await slack.eventually(lambda: slack.journal("ack"), "no late ack")
        assert [ack["late"] for ack in slack.journal("ack")] == [True]
        assert len(slack.journal("envelope")) == 1


async def test_a_command_with_nobody_connected_fails_at_once(slack: Playground):
    operator = slack.user("operator")
    await operator.slash("/deploy", expect="dispatch_failed")
    await operator.sees('failed with the error "dispatch_failed"')


@pytest.mark.playground(timings=SHORT)
async def test_an_event_that_is_not_acknowledged_comes_again_with_its_count(slack: Playground):
    async with aiohttp.ClientSession() as session:
        socket = await connect(slack, session)
        await slack.user("operator").says("@bot hello")
        got = [await socket.receive_json() for _ in range(8)]
        mentions = [each for each in got if each["payload"]["event"]["type"] == "app_mention"]
        assert [each["retry_attempt"] for each in mentions] == [0, 1, 2, 3]
        assert [each["retry_reason"] for each in mentions] == ["", "timeout", "timeout", "timeout"]
        assert len({each["payload"]["event_id"] for each in mentions}) == 1
        await socket.close()


@pytest.mark.playground(timings=Timings(redelivery=(0.0, 2.0, 2.0)))
async def test_an_event_from_when_nobody_was_connected_arrives_as_a_retry(slack: Playground):
    await slack.user("operator").says("@bot hello")
    async with aiohttp.ClientSession() as session:
        socket = await connect(slack, session)
        got = await socket.receive_json()
        assert got["retry_attempt"] == 1
        await socket.send_json({"envelope_id": got["envelope_id"]})
        await socket.close()


async def test_a_ticket_is_good_once(slack: Playground):
    async with aiohttp.ClientSession() as session:
        url = await address(slack, session)
        socket = await session.ws_connect(url)
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await session.ws_connect(url)
        await socket.close()


async def test_the_eleventh_connection_is_told_that_there_are_too_many(slack: Playground):
    async with aiohttp.ClientSession() as session:
        sockets = [await connect(slack, session) for _ in range(10)]
        eleventh = await session.ws_connect(await address(slack, session))
        told = await eleventh.receive_json()
        assert (told["type"], told["reason"]) == ("disconnect", "too_many_websockets")
        for socket in [*sockets, eleventh]:
            await socket.close()


@pytest.mark.playground(timings=Timings(connection=0.3, warning=0.2, ping=0.05))
async def test_a_connection_is_warned_then_refreshed_and_pinged_meanwhile(slack: Playground):
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(await address(slack, session), autoping=False)
        kinds: list[str] = []
        async for frame in socket:
            if frame.type is aiohttp.WSMsgType.PING:
                kinds.append("ping")
            elif frame.type is aiohttp.WSMsgType.TEXT:
                words = frame.json()
                kinds.append(words.get("reason") or words["type"])
        assert kinds[0] == "hello"
        assert "ping" in kinds
        assert [kind for kind in kinds if kind != "ping"] == ["hello", "warning", "refresh_requested"]


@pytest.mark.parametrize("do", ["refresh", "close", "drop"])
async def test_the_sdk_comes_back_after_the_end_of_its_connection(slack: Playground, do: str):
    app = apps.async_app(slack)

    @app.command("/ping")
    async def ping(ack):
        await ack("pong")

    async with apps.running(slack, app) as handlers:
        handlers[0].client.ping_interval = 0.5
        slack.patience = 15
        await slack.disconnect(do)

        def opened_again() -> bool:
            return [entry["event"] for entry in slack.journal("connection")].count("open") == 2

        await slack.eventually(opened_again, "no new connection")
        await slack.connected(1)
        card = await slack.user("operator").slash("/ping")
        await card.shows("pong")


@pytest.mark.playground(timings=SHORT)
async def test_a_frozen_line_carries_nothing_until_it_thaws(slack: Playground):
    slack.patience = 0.2
    async with aiohttp.ClientSession() as session:
        socket = await connect(slack, session)
        await slack.disconnect("freeze")
        await slack.user("operator").slash("/ping", expect="operation_timeout")
        assert slack.server.world.connections() == 1
        await slack.disconnect("thaw")
        with pytest.raises(NotSeen):
            await slack.user("operator").slash("/ping")
        await socket.close()


@pytest.mark.playground(timings=Timings(redelivery=SHORT.redelivery))
async def test_duplicates_and_redeliveries_happen_on_request(slack: Playground):
    app = apps.async_app(slack)
    heard: list[str] = []

    @app.event("app_mention")
    async def mentioned(event):
        heard.append(event["text"])

    @app.event("message")
    async def message():
        pass

    @app.command("/once")
    async def once(ack, command):
        await ack()
        heard.append(command["trigger_id"])

    async with apps.running(slack, app):
        slack.fault("duplicate")
        await slack.user("operator").slash("/once")
        await slack.eventually(lambda: len(heard) == 2, "not twice")
        assert len(set(heard)) == 1
        slack.fault("redeliver", times=2)
        await slack.user("operator").says("@bot hello")
        await slack.eventually(lambda: len(heard) == 4, "the mention did not come twice")
