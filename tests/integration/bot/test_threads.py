"""From the end of a command's jobs to the replies below its card, through a real ledger and a local Slack."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import Connection

from bot.answers import logs as reports
from bot.answers.logs import ReportReader
from slack_playground import Playground
from slack_playground.values import Json
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.storage.outbox import FILE, REPORTS
from tests.integration.bot.test_files import Outbox, content_of, direct, said_in

OPERATOR = Issuer("slack:T0/U0OPERATOR", "operator")
PAUSED = Outcome.done(message="It is paused")


class Road(Outbox):
    """Commands are filed with a card, begun and ended here as a worker's host does it."""

    def files(self, task_id: str, workers: list[str], channel: str, handler: str = "pause", waited: int = 0) -> None:
        now = datetime.now(UTC)
        place = {"channel": channel, "user": "U0OPERATOR"}

        def work(connection: Connection) -> None:
            for number, worker in enumerate(workers):
                filed, card = now - timedelta(seconds=waited), None if number else place
                new = jobs.NewJob(task_id, worker, handler, {}, None, OPERATOR, "slack", filed, card=card)
                assert jobs.file(connection, "Host", new, now) is not None

        self.ledger.write(work)

    def begins(self, task_id: str, worker: str) -> Job:
        job = self.ledger.read(lambda connection: jobs.find(connection, task_id, worker))
        assert job is not None
        assert self.ledger.step(jobs.claim(job, datetime.now(UTC)))
        assert self.ledger.step(jobs.begin(job, datetime.now(UTC)))
        return job

    def ends(self, task_id: str, worker: str, outcome: Outcome = PAUSED) -> None:
        assert self.ledger.step(jobs.finish(self.begins(task_id, worker), outcome, datetime.now(UTC), 1.0))


@pytest.fixture
def road(slack: Playground, tmp_path: Path) -> Iterator[Road]:
    slack.user("operator")
    made = Road(slack, tmp_path)
    yield made
    made.ledger.close()


def below(slack: Playground, channel: str) -> list[Json]:
    """What stands in threads."""
    return [message for message in said_in(slack, channel) if message.get("thread_ts") not in (None, message["ts"])]


async def test_whoever_waited_long_is_told_once_also_where_it_was_interrupted(slack: Playground, road: Road) -> None:
    ops = slack.channel("ops").id
    road.files("t1", ["North"], ops, waited=75)
    job = road.begins("t1", "North")
    await road.goes()
    assert road.ledger.step(jobs.interrupt(job, Outcome.failed("The supervisor ended."), datetime.now(UTC)))
    await road.goes()
    (word,) = below(slack, ops)
    said = r"<@U0OPERATOR> Pause of North interrupted after 1 min [0-9]+ s: The supervisor ended\."
    assert re.match(said, word["text"])
    ended = road.ledger.read(lambda connection: jobs.of_task(connection, "t1"))
    assert [each.state for each in ended] == [JobState.INTERRUPTED]


async def test_whoever_asked_where_the_bot_is_no_member_is_told_in_their_direct_messages(
    slack: Playground, road: Road
) -> None:
    secret = slack.channel("secret", private=True).without_bot().id
    road.files("t1", ["North"], secret, waited=75)
    road.ends("t1", "North")
    await road.goes()
    card, word = direct(slack)
    assert word["thread_ts"] == card["ts"]
    assert word["text"].startswith("<@U0OPERATOR> North paused")


def report_of(folder: Path, worker: str) -> Outcome:
    path, text = folder / f"{worker}.json", f'{{"worker_id": "{worker}"}}\n'
    path.write_text(text)
    message, digest = f"{worker} runs; it is healthy", sha256(text.encode()).hexdigest()
    return Outcome.done(message=message, report_path=str(path), report_sha256=digest)


async def test_the_reports_of_a_few_come_as_files_and_of_many_it_is_said_where_they_are(
    slack: Playground, road: Road
) -> None:
    ops, boss = slack.channel("ops").id, slack.channel("boss").id
    road.read_report = ReportReader(road.folder, road.folder / "var").read
    few, many = [[f"W{n}" for n in range(number)] for number in (REPORTS, REPORTS + 1)]
    for task, workers, channel in (("few", few, ops), ("many", many, boss)):
        road.files(task, workers, channel, "diagnostics")
        for worker in workers:
            road.ends(task, worker, report_of(road.folder, worker))
    await road.goes(rounds=12)
    brought = below(slack, ops)
    assert [content_of(slack, each).decode() for each in brought] == [f'{{"worker_id": "W{n}"}}\n' for n in range(5)]
    assert brought[0]["text"].split("\n") == ["*W0*: diagnostics", "• W0 runs", "• it is healthy"]
    (listed,) = below(slack, boss)
    assert [f"W{n}.json" in listed["text"] for n in range(6)] == [True] * 6
    assert road.rows(FILE) == [("sent", "")] * REPORTS


async def test_a_report_that_can_not_be_read_is_told_in_words_with_its_place(slack: Playground, road: Road) -> None:
    ops = slack.channel("ops").id
    road.read_report = ReportReader(road.folder, road.folder / "var").read
    outcome = report_of(road.folder, "North")
    (road.folder / "North.json").unlink()
    road.files("t1", ["North"], ops, "diagnostics")
    road.ends("t1", "North", outcome)
    await road.goes()
    (told,) = below(slack, ops)
    assert "it is healthy" in told["text"]
    assert f"it can't be read on this host right now. In full: `{road.folder}/North.json` on Host" in told["text"]
    assert slack.calls("files.getUploadURLExternal") == []


def test_a_drive_that_hangs_holds_nothing_up_and_other_files_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "READ_SECONDS", 0.05)
    digest = sha256(b"{}").hexdigest()
    drive, home = tmp_path / "nas", tmp_path / "var"
    for folder in (drive, home):
        folder.mkdir()
        (folder / "a.json").write_text("{}")
    (tmp_path / "secret").write_text("token")
    reading = ReportReader(drive, home)
    assert reading.read(str(drive / "a.json"), digest) == "{}"
    assert reading.read(str(tmp_path / "secret"), sha256(b"token").hexdigest()) == ""
    assert reading.read(str(drive / ".." / "secret"), sha256(b"token").hexdigest()) == ""
    release = threading.Event()
    with pytest.raises(DriveUnavailable):
        reading._drive.call(release.wait)  # noqa: SLF001 (the drive that hangs)
    assert reading.read(str(drive / "a.json"), digest) == "", "while it hangs nobody else is sent after it"
    assert reading.read(str(home / "a.json"), digest) == "{}"
    release.set()
