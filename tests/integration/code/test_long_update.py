"""A long update on many workers at once: Slack is never spoken to faster than it bears, no card is left behind, and at
the end each says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from bot.outbound.delivery import Delivery
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, Progress
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.chain import HeadFile
from supervisor_core.storage.outbox import DETAILS
from supervisor_core.storage.store import Ledger
from tests.support.alerts.delivery import whole_round
from tests.support.sampling import rounds
from tests.support.slack.counting_slack import START, Clock, CountingSlack

BURSTS = rounds(10, sample=3)
CARDS, STEPS = 20, 30 * BURSTS
EVERY, LASTS = timedelta(minutes=18), timedelta(seconds=1)
"""Steps come as programs print them: thirty within half a minute, on each worker, then nothing for long."""

BEGIN = datetime.now(UTC) - timedelta(hours=4)  # all of it has been: nothing waits for the real clock

BEHIND_SECONDS = 45.0
"""So long at most a card may say what is no longer so, with all of them changing at once."""


def filed(connection: Connection, number: int) -> Job:
    who = Issuer("slack:T0/U0OPER", "operator")
    card = {"channel": f"C{number % 2}"}
    new = jobs.NewJob(f"t{number}", f"W{number}", "update_code", {}, None, who, "slack", BEGIN, card=card)
    job = jobs.file(connection, "Host", new, BEGIN)
    assert job is not None
    return job


def happenings(ledger: Ledger, filed_jobs: list[Job]) -> Iterator[tuple[float, Any]]:
    """What happens when, by the clock."""
    for burst in range(BURSTS):
        for step in range(STEPS // BURSTS):
            at = BEGIN + burst * EVERY + step * LASTS
            said = Progress(at, f"step {burst * STEPS // BURSTS + step + 1} of {STEPS}")

            def work(connection: Connection, said: Progress = said) -> None:
                assert all(jobs.note_progress(connection, "Host", [(job, said) for job in filed_jobs]))

            yield START + (at - BEGIN).total_seconds(), partial(ledger.write, work)
    end = BEGIN + timedelta(hours=3)

    def finish() -> None:
        for job in filed_jobs:
            outcome = Outcome.done(message=f"{job.worker_id} has 7 new commits")
            assert ledger.step(jobs.finish(job, outcome, end, 10_800), end)

    yield START + 10_800, finish


@pytest.mark.sampled
def test_a_three_hour_update_with_300_steps_on_20_cards_at_once(tmp_path: Path) -> None:
    asyncio.run(_a_long_update(tmp_path))


async def _a_long_update(tmp_path: Path) -> None:
    clock = Clock()
    slack = CountingSlack(clock)
    behind: dict[str, float] = {}
    longest = 0.0
    with Ledger(tmp_path / "ledger.db", "Host", HeadFile(tmp_path)) as ledger:
        delivery = Delivery(MessageSender(ledger, slack, "supervisor", pace=Pace(clock.now)), clock=clock.now)
        made = [ledger.write(partial(filed, number=number)) for number in range(CARDS)]
        for job in made:
            assert ledger.step(jobs.claim(job, BEGIN), BEGIN)
            assert ledger.step(jobs.begin(job, BEGIN), BEGIN)
        coming = list(happenings(ledger, made))
        while True:
            while coming and coming[0][0] <= clock.at:
                coming.pop(0)[1]()
            seconds = await whole_round(delivery)
            pending = ledger.read(partial(outbox.pending_messages, kinds=(jobs.CARD, DETAILS), now=datetime.now(UTC)))
            waits = {each.subject for each in pending}
            behind = {subject: behind.get(subject, clock.at) for subject in waits}
            longest = max([longest, *(clock.at - since for since in behind.values())])
            if not waits and not coming:
                break
            following = coming[0][0] if coming else float("inf")
            clock.at = following if not waits else min(clock.at + seconds, following)
    assert slack.refused == []
    assert (len(slack.shown), len(slack.replies)) == (CARDS, CARDS)  # who asked waited for long, and is told once
    ends = {f":white_check_mark: *W{n} updated*": f"W{n} has 7 new commits." for n in range(CARDS)}
    assert sorted(content["text"] for content in slack.shown.values()) == sorted(ends)
    for content in slack.shown.values():
        assert [
            block["text"]["text"]
            for attachment in content["attachments"]
            for block in attachment["blocks"]
            if block["type"] == "section"
        ] == [ends[content["text"]]]
        assert check_message(content, update=True) == []
    told = sum(len(edits) for edits in slack.edits.values())
    assert CARDS * BURSTS < told < CARDS * STEPS / 2  # each is seen to go on, and most steps were told together
    assert min(len(edits) for edits in slack.edits.values()) * 2 > max(len(edits) for edits in slack.edits.values())
    assert longest < BEHIND_SECONDS
