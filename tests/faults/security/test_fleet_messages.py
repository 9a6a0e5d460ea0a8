"""Messages to a host that aren't its hub's, sent with the power of the server: refused, recorded and alerted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slack_playground import Playground
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.times import to_text
from supervisor_core.fleet.keys import QUESTION, CommandMessage, KeyPair, signed
from supervisor_core.fleet.transport.connection import FleetConnection, NoAnswer
from supervisor_core.fleet.transport.subjects import HUB_INBOX, ask_subject, command_subject
from tests.support.daemon.fleet_homes import KEY, FleetHomes, a_fleet
from tests.support.waiting import wait_until

PATIENCE = 30.0
FLOOD = 300
ANNA = Issuer("cli:anna", "anna")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetHomes]:
    with a_fleet(tmp_path) as made:
        yield made


def command(host: str, key: KeyPair, task_id: str, late: bool = False) -> bytes:
    """A pause of the host's worker, signed with this key."""
    now = datetime.now(UTC)
    until = now + timedelta(minutes=-1 if late else 10)
    pause = Command("pause", "fetcher", ("fetcher",), {}, "forged", issuer=ANNA, task_id=task_id)
    return CommandMessage(host, pause, "cli", now, until).encode(key)


def question(host: str, key: KeyPair, asked_at: datetime, name: str = "q1") -> bytes:
    body = {"question": "usage", "about": {}, "asked_at": to_text(asked_at), "id": name}
    return signed(QUESTION, host, body, key)


def count_refused(fleet: FleetHomes, host: str = "web-1") -> int:
    """The rows about refused messages in this host's trail."""
    rows = [row for row in fleet.hosts[host].audit() if row["action"] == "REFUSED"]
    assert {(row["actor"], row["outcome"], row["target_id"]) for row in rows} <= {("fleet:hub", "failure", host)}
    return len(rows)


def paused(fleet: FleetHomes) -> list[str]:
    """The ids of the pauses that this host has carried out or refused, in order."""
    return [row["task_id"] for row in fleet.hosts["web-1"].audit() if row["action"] == "PAUSE"]


@pytest.mark.playground(patience=30)
async def test_what_the_hub_did_not_sign_for_this_host_is_refused_recorded_and_alerted(
    fleet: FleetHomes, slack: Playground
) -> None:
    """The sender has the power of the server's operator: here, the hub's connection without the hub's signature."""
    await fleet.start(slack)
    hub_key, host_key = KeyPair.read(fleet.hub.folder / KEY), KeyPair.read(fleet.hosts["web-2"].folder / KEY)
    genuine = command("web-1", hub_key, "genuine")
    attacks = {
        "signed with another host's key": command("web-1", host_key, "forged"),
        "altered": genuine.replace(b"fetcher", b"fetched"),
        "for another host": command("web-2", hub_key, "stray"),
        "a question": question("web-1", hub_key, datetime.now(UTC)),
        "junk": b"\xff\x00 not json",
    }
    async with FleetConnection(fleet.url, hub_key, name="operator", inbox=f"{HUB_INBOX}.operator") as operator:
        await operator.wait_connected(PATIENCE)
        for name, data in attacks.items():
            await operator.publish_durably(command_subject("web-1"), data, f"attack {name}")
        for number in range(FLOOD):
            await operator.publish_durably(command_subject("web-1"), b"junk", f"flood {number}")
        for data in (
            b"junk",
            question("web-1", host_key, datetime.now(UTC)),
            question("web-2", hub_key, datetime.now(UTC)),
        ):
            with pytest.raises(NoAnswer):
                await operator.request(ask_subject("web-1"), data, 0.3)
        old = question("web-1", hub_key, datetime.now(UTC) - timedelta(hours=1), "old")
        assert "was asked at" in json.loads(await operator.request(ask_subject("web-1"), old, PATIENCE))["error"]
        fresh = question("web-1", hub_key, datetime.now(UTC), "fresh")
        assert "answer" in json.loads(await operator.request(ask_subject("web-1"), fresh, PATIENCE))
        with pytest.raises(NoAnswer):
            await operator.request(ask_subject("web-1"), fresh, 0.3)
        await operator.publish_durably(command_subject("web-1"), genuine, "the hub's own")
        await asyncio.to_thread(
            wait_until, lambda: paused(fleet), PATIENCE, "the genuine command is carried out after all others"
        )
        assert await asyncio.to_thread(paused, fleet) == ["genuine"]
        late = command("web-1", hub_key, "late", late=True)
        await operator.publish_durably(command_subject("web-1"), late, "expired")
        await operator.publish_durably(command_subject("web-1"), genuine, "replayed")
    await asyncio.to_thread(wait_until, lambda: len(paused(fleet)) == 2, PATIENCE, "the expired one has its failure")
    assert 1 <= await asyncio.to_thread(count_refused, fleet) <= 3, "a flood is a row a minute"
    alerts = "select condition, reason from alerts_t where target_type = 'link' and target_id = 'web-1'"
    await asyncio.to_thread(wait_until, lambda: fleet.hub.rows(alerts), PATIENCE, "the hub has an alert")
    (alert,) = fleet.hub.rows(alerts)
    assert alert["condition"] == "refused"
    assert "signed by the hub" in alert["reason"]
    assert len(fleet.hosts["web-2"].running_copies("fetcher")) == 1
