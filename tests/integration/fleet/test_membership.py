"""Members of the fleet as rows: an invite works once, in time and for its host, and everything is in the trail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import INVITE_LIFE, FleetMembers, JoinRefused
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
ANNA = Issuer("cli:anna", "anna")
KEY, OTHER_KEY = KeyPair.new().public_key, KeyPair.new().public_key


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db", "hub") as opened:
        yield opened


@pytest.fixture
def members(ledger: Ledger) -> FleetMembers:
    return FleetMembers(ledger)


def trail(ledger: Ledger) -> list[tuple[str, str, str, str]]:
    query = select(audit_log.c.action, audit_log.c.outcome, audit_log.c.target_id, audit_log.c.actor)
    rows = ledger.read(lambda look: look.execute(query.order_by(audit_log.c.audit_id)).all())
    return [(row.action, row.outcome, row.target_id, row.actor) for row in rows]


REFUSALS: dict[str, tuple[str, timedelta]] = {
    "has been used": ("web", timedelta()),
    "has expired": ("web", INVITE_LIFE),
    "is for web": ("db", timedelta()),
    "isn't known": ("web", timedelta()),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_an_invite_works_once_in_time_and_for_its_host(members: FleetMembers, ledger: Ledger, reason: str) -> None:
    invite = members.invite("web", ANNA, NOW)
    if reason == "has been used":
        members.join(invite.invite_id, "web", KEY, "", NOW)
    name, later = REFUSALS[reason]
    with pytest.raises(JoinRefused, match=reason):
        members.join("x" if reason == "isn't known" else invite.invite_id, name, OTHER_KEY, "", NOW + later)
    assert trail(ledger)[-1][:2] == ("REFUSED", "failure")
    assert OTHER_KEY not in members.users(NOW)[0].values()


def test_a_revoked_host_can_t_come_back_with_an_older_invite(members: FleetMembers) -> None:
    first, second = (members.invite("web", ANNA, NOW) for _ in range(2))
    members.join(first.invite_id, "web", KEY, "", NOW)
    with pytest.raises(JoinRefused, match="already, with another key"):
        members.join(second.invite_id, "web", OTHER_KEY, "", NOW)
    members.revoke("web", ANNA, NOW)
    for invite in (first, second):
        with pytest.raises(JoinRefused):
            members.join(invite.invite_id, "web", OTHER_KEY, "", NOW + timedelta(seconds=1))
    third = members.invite("web", ANNA, NOW)
    members.join(third.invite_id, "web", OTHER_KEY, "", NOW)
    assert members.users(NOW)[0] == {"web": OTHER_KEY}


def test_a_host_joins_with_a_key_that_nobody_in_the_fleet_has_or_had(members: FleetMembers) -> None:
    members.join(members.invite("db", ANNA, NOW).invite_id, "db", OTHER_KEY, "", NOW)
    invite, another = (members.invite("web", ANNA, NOW) for _ in range(2))
    for key in (OTHER_KEY, invite.keys.public_key, another.keys.public_key):
        with pytest.raises(JoinRefused, match="isn't new"):
            members.join(invite.invite_id, "web", key, "", NOW)
    members.revoke("db", ANNA, NOW)
    with pytest.raises(JoinRefused, match="isn't new"):
        members.join(members.invite("db", ANNA, NOW).invite_id, "db", OTHER_KEY, "", NOW)
    members.join(invite.invite_id, "web", KEY, "", NOW)


def test_a_token_that_is_tried_again_and_again_is_reported_with_a_count(members: FleetMembers, ledger: Ledger) -> None:
    def reports() -> list[int]:
        query = select(audit_log.c.details_json).where(audit_log.c.action == "REFUSED").order_by(audit_log.c.audit_id)
        return [json.loads(text)["count"] for text in ledger.read(lambda look: look.execute(query).scalars().all())]

    invite = members.invite("web", ANNA, NOW)
    members.join(invite.invite_id, "web", KEY, "", NOW)
    for second in range(30):
        with pytest.raises(JoinRefused, match="has been used"):
            members.join(invite.invite_id, "web", OTHER_KEY, "", NOW + timedelta(seconds=second))
    assert reports() == [1]
    for minutes in (10, 11):
        with pytest.raises(JoinRefused, match="has been used"):
            members.join(invite.invite_id, "web", OTHER_KEY, "", NOW + timedelta(minutes=minutes))
    assert reports() == [1, 30]


def test_a_host_that_is_in_the_fleet_is_not_invited_again(members: FleetMembers) -> None:
    members.join(members.invite("web", ANNA, NOW).invite_id, "web", KEY, "", NOW)
    with pytest.raises(RefusedError, match="supervisor fleet revoke web"):
        members.invite("web", ANNA, NOW)
    with pytest.raises(UsageError, match="Did you mean web"):
        members.revoke("wep", ANNA, NOW)
