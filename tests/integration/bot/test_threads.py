"""From the end of a command's jobs to the replies below its card, through a real ledger and a local Slack."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import Connection

import bot.answers as reports
from bot.answers import ReportReader
from slack_playground import Playground
from slack_playground.values import Json
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from tests.integration.bot.test_files import Outbox, said_in

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


def report_of(folder: Path, worker: str) -> Outcome:
    path, text = folder / f"{worker}.json", f'{{"worker_id": "{worker}"}}\n'
    path.write_text(text)
    message, digest = f"{worker} runs; it is healthy", sha256(text.encode()).hexdigest()
    return Outcome.done(message=message, report_path=str(path), report_sha256=digest)


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
