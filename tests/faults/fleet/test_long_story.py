"""Three hosts, a hub, its database and NATS, while everything fails in turn: nothing lost, nothing twice, in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.daemon import short_silence
from tests.support.daemon.fleet_faults import defects, rules
from tests.support.daemon.fleet_faults.checker import FleetChecker
from tests.support.daemon.fleet_faults.records import FleetRecord
from tests.support.daemon.fleet_faults.story import FULL, SAMPLE, a_story
from tests.support.sampling import in_full
from tests.support.storage.databases import new_database

pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 3)


def assert_every_defect_is_found(record: FleetRecord | None) -> None:
    """Records of a real story, with a defect planted: the rule says so."""
    assert record is not None
    for rule, plant in defects.DEFECTS.items():
        assert list(rules.RULES[rule](plant(record))), f"{plant.__name__} isn't found by “{rule}”"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fleet_loses_nothing_and_does_nothing_twice_whatever_fails(
    tmp_path: Path, postgresql: str, seed: int
) -> None:
    async def tell() -> None:
        lengths, environ = (FULL, {}) if in_full() else (SAMPLE, short_silence.ENVIRON)
        with new_database(postgresql) as url:
            async with a_story(tmp_path, url, lengths, seed, environ) as story:
                await story.happen()
                checker = FleetChecker(story.traffic, story.faults)
                await checker.check()
                assert_every_defect_is_found(checker.record)

    asyncio.run(tell())
