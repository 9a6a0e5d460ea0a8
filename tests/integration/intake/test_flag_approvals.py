"""Flags where a flag needs an approval: it brings the votes along, signed, or it is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.flags import Trust, sign
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.inbox import SweepResult
from supervisor_core.workers.context import open_doors
from tests.integration.intake.test_flag_intake import SECRET, Scene
from tests.support.configurations import configured

TRUST = Trust(SECRET, timedelta(hours=1), "TestHost")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    slack = {
        "access": {"operators": ["U1"], "approvers": ["U1", "U2", "U3"]},
        "approvals": {"required_for": ["pause"], "doors": ["flag"], "votes": 2},
    }
    config = configured(tmp_path, slack=slack)
    with opened_ledger(config) as ledger:
        yield Scene(open_doors(config), ledger)


def signed(*voters: str, **changes: Any) -> dict[str, Any]:
    people = [voter if "/" in voter else f"T/{voter}" for voter in voters]
    votes = [{"id": f"slack:{person}", "name": person, "at": "2026-02-05T14:29:00Z"} for person in people]
    body = {
        "task_id": "t1",
        "handler": "pause",
        "worker_id": "OrionMX",
        "supervisor_id": "TestHost",
        "issued_at": "2026-02-05T14:30:00Z",
        "issuer": {"id": "slack:T/U1", "name": "anna"},
        "approvals": votes,
    }
    return {**body, "signature": sign(body, SECRET), **changes}


def test_a_signed_flag_with_enough_votes_is_carried_out_and_keeps_them(scene: Scene) -> None:
    scene.drop(signed("U2", "U3"))
    (job,) = scene.sweep(TRUST).filed
    assert [vote["id"] for vote in job.approvals] == ["slack:T/U2", "slack:T/U3"]


@pytest.mark.parametrize("voters", [(), ("U2",), ("U2", "U2"), ("U1", "U2"), ("T2/U1", "U2")])
def test_too_few_votes_the_same_twice_or_the_asker_s_own_do_not_do(scene: Scene, voters: tuple[str, ...]) -> None:
    scene.drop(signed(*voters))
    assert scene.sweep(TRUST) == SweepResult(rejected=1)
    (reason,) = scene.rejected().values()
    assert "pause needs an approval with 2 votes" in reason
    assert scene.queued() == []


def test_votes_that_were_added_to_a_signed_flag_do_not_count(scene: Scene) -> None:
    forged = signed("U2")
    scene.drop({**forged, "approvals": [*forged["approvals"], {"id": "slack:T/U3", "name": "x", "at": "now"}]})
    assert scene.sweep(TRUST) == SweepResult(rejected=1)
