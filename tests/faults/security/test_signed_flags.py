"""Signed flags in wrong hands: none counts on another host, and whoever holds the secret can't name just anybody."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.flags import Trust, sign
from supervisor_core.daemon.environment import flag_trust, opened_ledger
from supervisor_core.intake.inbox import SweepResult
from supervisor_core.workers.context import open_doors
from tests.integration.intake.test_flag_intake import SECRET, START, Scene
from tests.support.configurations import configured

HOUR = timedelta(hours=1)
TRUST = Trust(SECRET, HOUR, "TestHost")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    access = {
        "viewers": ["U0VIEWER"],
        "operators": ["U0OPER", "S0OPS", "*"],
        "approvers": ["U0APP"],
        "commands": {"restart": ["U0RESTARTS"]},
    }
    config = configured(
        tmp_path,
        {"OrionMX": {"team": "archive"}, "West": {}},
        inbox={"secret": SECRET},
        teams={"archive": {"operators": ["U0TEAM"], "approvers": ["U0TEAMAPP"]}},
        slack={"access": access},
    )
    with opened_ledger(config) as ledger:
        yield Scene(open_doors(config), ledger)


def signed(*, without: str = "", handler: str = "pause", **more: Any) -> dict[str, Any]:
    body = {
        "task_id": "t1",
        "handler": handler,
        "worker_id": "OrionMX",
        "supervisor_id": "TestHost",
        "issued_at": START.isoformat(),
        **more,
    }
    body.pop(without, None)
    return {**body, "signature": sign(body, SECRET)}


def by(user: str, **more: Any) -> dict[str, Any]:
    return signed(issuer={"id": user, "name": "somebody"}, **more)


def agreed(*users: str, **more: Any) -> dict[str, Any]:
    return signed(approvals=[{"id": user, "name": "somebody", "at": "now"} for user in users], **more)


def rejected(scene: Scene, body: dict[str, Any]) -> str:
    """The reason, after the flag was dropped; with its audit row, and no job."""
    scene.drop(body, f"supervisor_{body['handler']}_{body['worker_id']}.flag")
    assert scene.sweep(TRUST) == SweepResult(rejected=1)
    assert scene.queued() == []
    (row,) = scene.trail()
    assert (row["action"], row["outcome"], row["actor"].partition(":")[0]) == ("REFUSED", "failure", "file")
    (reason,) = scene.rejected().values()
    return reason


def test_the_configuration_s_own_id_is_the_one_that_counts(scene: Scene) -> None:
    trust = flag_trust(scene.host.config)
    assert trust is not None
    assert trust.supervisor_id == "TestHost"


def test_a_flag_that_was_signed_for_another_host_is_rejected(scene: Scene) -> None:
    assert "signed for supervisor 'OtherHost'; this is 'TestHost'" in rejected(scene, signed(supervisor_id="OtherHost"))


def test_an_old_flag_without_the_supervisor_s_id_is_told_what_to_add(scene: Scene) -> None:
    reason = rejected(scene, signed(without="supervisor_id"))
    assert "a flag needs supervisor_id" in reason
    assert 'Add "supervisor_id": "TestHost" and sign it again.' in reason


def test_a_supervisor_s_id_that_was_exchanged_after_signing_is_rejected(scene: Scene) -> None:
    assert "signature doesn't match" in rejected(
        scene, {**signed(supervisor_id="OtherHost"), "supervisor_id": "TestHost"}
    )


@pytest.mark.parametrize(
    ("who", "worker_id", "handler"),
    [
        ("slack:T1/U0OPER", "OrionMX", "pause"),
        ("slack:T1/U0TEAM", "OrionMX", "pause"),
        ("slack:T1/U0RESTARTS", "OrionMX", "restart_watcher"),
    ],
)
def test_an_issuer_who_is_listed_counts(scene: Scene, who: str, worker_id: str, handler: str) -> None:
    scene.drop(by(who, worker_id=worker_id, handler=handler), f"supervisor_{handler}_{worker_id}.flag")
    (job,) = scene.intake(("OrionMX", "West"), TRUST).sweep().filed
    assert job.issuer.id == who


@pytest.mark.parametrize(
    ("who", "handler"),
    [
        ("slack:T1/U0VIEWER", "pause"),
        ("slack:T1/U0APP", "pause"),
        ("slack:T1/U0NOBODY", "pause"),
        ("slack:T1/S0OPS", "pause"),
        ("slack:T1/*", "pause"),
        ("slack:U0OPER/U0NOBODY", "pause"),
        ("cli:root", "pause"),
        ("file:U0OPER", "pause"),
        ("U0OPER", "pause"),
        ("console:anna", "pause"),
        ("slack:T1/U0OPER", "restart_watcher"),
    ],
)
def test_an_issuer_without_the_operator_s_right_is_refused(scene: Scene, who: str, handler: str) -> None:
    assert f"{who} isn't listed by id in slack.access" in rejected(scene, by(who, handler=handler))


def test_a_team_s_operator_has_no_right_on_another_team_s_worker(scene: Scene) -> None:
    scene.drop(by("slack:T1/U0TEAM", worker_id="West"), "supervisor_pause_West.flag")
    assert scene.intake(("OrionMX", "West"), TRUST).sweep() == SweepResult(rejected=1)


@pytest.mark.parametrize("voters", [("slack:T1/U0APP",), ("slack:T1/U0APP", "slack:T1/U0TEAMAPP")])
def test_approvers_who_are_listed_count(scene: Scene, voters: tuple[str, ...]) -> None:
    scene.drop(agreed(*voters))
    (job,) = scene.sweep(TRUST).filed
    assert len(job.approvals) == len(voters)


@pytest.mark.parametrize("voters", [("slack:T1/U0OPER",), ("slack:T1/U0APP", "slack:T1/U0NOBODY"), ("cli:root",)])
def test_approvals_of_who_is_no_approver_are_refused(scene: Scene, voters: tuple[str, ...]) -> None:
    assert f"{voters[-1]} isn't listed by id in slack.access.approvers" in rejected(scene, agreed(*voters))
