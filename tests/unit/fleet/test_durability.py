"""A server that can't keep the fleet's promises is refused, each reason with its remedy."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor_core.fleet.transport.streams import find_faults

GOOD: dict[str, Any] = {"store_dir": "/var/nats", "max_storage": 10**9, "sync_always": True}


def answer(version: str = "2.12.5", **settings: object) -> dict[str, Any]:
    config = {**GOOD, **settings}
    return {"server": {"id": "N1"}, "data": {"version": version, "jetstream": {"config": config}}}


@pytest.mark.parametrize("version", ["2.12.5", "2.15.1", "3.0.0-beta"])
def test_a_durable_server_has_no_faults(version: str) -> None:
    assert find_faults(answer(version)) == []


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (answer("2.11.11"), "Its version is 2.11.11. Install 2.12.5 or later."),
        (answer(""), "Its version is unknown."),
        (answer(sync_always=False), "Set sync_interval: always"),
        (answer(max_storage=0), "It stores nothing on disk."),
        ({"server": {}, "data": {"version": "2.15.1"}}, "JetStream is off."),
    ],
)
def test_each_fault_is_named_with_its_remedy(told: dict[str, Any], fault: str) -> None:
    [found] = find_faults(told)
    assert found.startswith(fault) or fault in found


def test_an_answer_without_anything_is_no_durable_server() -> None:
    assert len(find_faults({})) == 2
