"""The card of an undo warns while its worker isn't well, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.outbound.content import MessageComposer
from supervisor_core.code.watch.rules import STEADY, BakeState
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.outbox import PendingMessage
from tests.integration.code.test_baking import DOWN, SECOND, WELL, Place
from tests.support.code.code_homes import a_code_host
from tests.support.code.repositories import origin_and_checkout

HALF_MINUTE = timedelta(seconds=30)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    clones = origin_and_checkout(tmp_path / "code")
    with a_code_host(tmp_path / "host", {"North": clones.checkout.folder}) as host:
        host.start()
        yield Place(host, clones)


def card(place: Place, task_id: str) -> str:
    """What the card of this command says."""
    (job,) = place.host.ledger.read(lambda connection: jobs.of_task(connection, task_id))
    assert job.finished_at is not None
    message = PendingMessage(0, 1, jobs.CARD, task_id, {}, {}, 0, job.finished_at, job.finished_at, "")
    return str(
        place.host.ledger.read(lambda each: MessageComposer().content(each, message, job.finished_at or job.filed_at))
    )


def test_the_card_of_an_undo_is_fine_again_once_its_worker_is(place: Place) -> None:
    update, _ = place.update()
    undo, at = place.did(f"undo North {update}")
    place.chore.work(at)
    place.workers["North"] = DOWN
    place.chore.work(at + 10 * SECOND)
    assert place.bake(undo).state is BakeState.DEGRADED
    assert ":warning:" in card(place, undo)

    place.workers["North"] = WELL
    place.chore.work(at + HALF_MINUTE)
    assert place.bake(undo).state is BakeState.DEGRADED, "it has only just come back"
    assert place.chore.due_at() is not None
    told = place.told(undo)
    after = at + 10 * SECOND + STEADY + HALF_MINUTE
    place.another().work(after)
    bake = place.bake(undo)
    assert (bake.state, bake.decided_at) == (BakeState.RECOVERED, after)
    assert bake.reason.startswith("exited (code 1) after 2.0 s")
    assert place.told(undo) == told + 1
    assert ":warning:" not in card(place, undo)
    assert "North: recovered" in card(place, undo)


def test_a_worker_that_keeps_failing_is_not_said_to_be_well(place: Place) -> None:
    undo, at = place.update()
    place.chore.work(at)
    place.workers["North"] = DOWN
    place.chore.work(at + 10 * SECOND)
    for minute in range(1, 5):
        now = at + timedelta(minutes=minute)
        place.workers["North"] = WELL._replace(started_at=now - 20 * SECOND)
        place.chore.work(now)
        assert place.bake(undo).state is BakeState.DEGRADED


def test_a_card_says_nothing_of_a_worker_whose_code_was_changed_since(place: Place) -> None:
    update, at = place.update()
    place.chore.work(at)
    place.workers["North"] = DOWN
    place.chore.work(at + 10 * SECOND)
    place.workers["North"] = WELL
    _, undone = place.did(f"undo North {update}")
    place.chore.work(undone)
    place.chore.work(undone + timedelta(minutes=5))
    assert place.bake(update).state is BakeState.DEGRADED, "that it is well came of the undo"
