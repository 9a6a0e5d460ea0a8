"""From a flag on the drive to a row: filed once or rejected once, with its reason, and other hosts' flags untouched."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.commands.flags import Trust, sign
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.inbox import ClaimedFlag, FlagContent, Inbox
from supervisor_core.intake.inbox import SETTLE_SECONDS, FlagIntake, SweepResult
from supervisor_core.jobs import results
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext, open_doors
from tests.support.configurations import configured
from tests.support.storage.ledger_rows import count_pending
from tests.support.waiting import wait_until

NAME = "supervisor_pause_OrionMX.flag"
SECRET = "a long secret"
START = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)


class Scene:
    """A host, its ledger and its inbox; the clock stands until it is moved."""

    def __init__(self, host: HostContext, ledger: Ledger) -> None:
        self.host, self.ledger, self.now = host, ledger, START
        self.inbox = host.config.folder("inbox")
        self.outbox = host.config.folder("outbox")
        self._daemon: tuple[HostContext, Trust | None, FlagIntake] | None = None

    def drop(self, content: object = None, name: str = NAME) -> Path:
        self.inbox.mkdir(exist_ok=True)
        path = self.inbox / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content or {}).encode())
        return path

    def intake(self, workers: Sequence[str] = ("OrionMX",), trust: Trust | None = None) -> FlagIntake:
        return FlagIntake(self.host, self.ledger, workers, trust, lambda: self.now, lambda: self.now.timestamp())  # noqa: PLW0108

    def sweep(self, trust: Trust | None = None) -> SweepResult:
        if self._daemon is None or self._daemon[:2] != (self.host, trust):
            self._daemon = self.host, trust, self.intake(trust=trust)
        return self._daemon[2].sweep()

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def trail(self) -> list[dict[str, Any]]:
        return self.ledger.read(lambda connection: search(connection, AuditFilter(limit=1000)))

    def queued(self) -> list[Job]:
        states = (JobState.QUEUED,)
        return self.ledger.read(lambda connection: jobs.waiting(connection, ["OrionMX", "West"], states))

    def results(self) -> list[dict[str, Any]]:
        while results.deliver(self.host, self.ledger):
            pass
        return [json.loads(path.read_text()) for path in sorted(self.outbox.glob("*"))]

    def rejected(self) -> dict[str, str]:
        """The rejected flags, each with its reason."""
        folder = self.inbox / "rejected"
        names = [path.name for path in folder.iterdir() if not path.name.endswith(".reason.txt")]
        return {name: (folder / f"{name}.reason.txt").read_text() for name in names}

    def finish(self, job: Job, outcome: Outcome) -> None:
        for step in (jobs.claim(job, START), jobs.begin(job, START), jobs.finish(job, outcome, START, 0.1)):
            assert self.ledger.step(step)

    def lies_in(self, folder: str = "") -> list[str]:
        return sorted(path.name for path in (self.inbox / folder).iterdir() if path.suffix == ".flag" or folder)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    access = {"operators": ["U1"], "approvers": ["U2"]}
    config = configured(tmp_path, ("OrionMX", "West"), slack={"access": access})
    with opened_ledger(config) as ledger:
        yield Scene(open_doors(config), ledger)


def test_a_flag_becomes_a_job_by_its_owner_and_is_gone(scene: Scene) -> None:
    path = scene.drop({"task_id": "t1", "label": "hotfix"})
    os.utime(path, (1_770_000_000, 1_770_000_000))
    swept = scene.sweep()
    (job,) = scene.queued()
    assert swept == SweepResult(filed=(job,))
    assert (job.task_id, job.handler, job.label, job.door) == ("t1", "pause", "hotfix", "flag")
    assert job.issuer.id == f"file:{path.parent.owner()}"
    assert job.filed_at == datetime.fromtimestamp(1_770_000_000, UTC)
    assert scene.lies_in() == scene.lies_in("processing") == scene.lies_in("rejected") == []
    assert scene.sweep() == SweepResult()


def test_flags_of_other_workers_and_other_files_are_not_touched(scene: Scene) -> None:
    names = [
        "supervisor_pause_West.flag",
        "supervisor_pause_OrionMX2.flag",
        "supervisor_dance_West.flag",
        "job_pause_OrionMX.flag",
        "notes.txt",
        ".supervisor_pause_OrionMX.flag.tmp",
    ]
    for name in names:
        scene.drop({}, name)
    (scene.inbox / "processing").mkdir()
    (scene.inbox / "processing" / "supervisor_pause_West.flag.token").touch()
    (scene.inbox / "processing" / "supervisor_pause_West.flag").touch()
    assert scene.sweep() == SweepResult()
    assert sorted(path.name for path in scene.inbox.iterdir() if path.is_file()) == sorted(names)
    assert len(scene.lies_in("processing")) == 2
    assert scene.trail() == []


REJECTIONS: list[tuple[str, bytes, str]] = [
    (NAME, b"[]", "must contain a JSON object"),
    (NAME, b'{"handler": "resume"}', "the content has 'resume'"),
    (NAME, b'{"worker_id": "West"}', "the content has 'West'"),
    (NAME, b'{"label": "a\\nb"}', "letters A-Z"),
    (NAME, b'{"params": {"n": 1}}', "no parameter"),
    (NAME, b'{"issuer": {"id": "slack:T/U"}}', "need a signature"),
    (NAME, b'{"handler": "\\ud800"}', r"\ud800"),
    (NAME, b"x" * (64 * 1024 + 1), "The file is larger than 65536 bytes"),
    ("supervisor_rollback_OrionMX.flag", b"{}", "Did you mean supervisor_rollback_code_OrionMX.flag?"),
    ("supervisor_dance_OrionMX.flag", b"{}", "Handlers:"),
    ("supervisor_pause_OrionMX_t 1.flag", b"{}", "A task id is 1 to 128"),
    ("supervisor_pause_OrionMX_.flag", b"", "name must be"),
    (f"supervisor_dance_OrionMX_{'x' * 220}.flag", b"{}", "Handlers:"),
    (os.fsdecode(b"supervisor_\xff_OrionMX.flag"), b"{}", "Handlers:"),
    ("supervisor_a\nb_OrionMX.flag", b"{}", "Handlers:"),
]


def test_a_rejected_flag_is_in_the_trail_once_has_a_result_and_lies_aside_with_its_reason(scene: Scene) -> None:
    expected = []
    for number, (pattern, content, said) in enumerate(REJECTIONS):
        name = pattern if pattern != NAME else f"supervisor_pause_OrionMX_n{number}.flag"
        scene.drop(content, name)
        expected.append(said)
    scene.drop({"task_id": "good"}, "supervisor_resume_OrionMX.flag")
    swept = scene.sweep()
    assert ([job.task_id for job in swept.filed], swept.rejected) == (["good"], len(REJECTIONS))
    assert scene.sweep() == SweepResult()
    rejected, results = scene.rejected(), scene.results()
    for reasons in (list(rejected.values()), [result["error"] for result in results]):
        assert len(reasons) == len(expected)
        assert all(any(said in reason for reason in reasons) for said in expected)
    assert not any("processing" in reason for reason in rejected.values()), "they no longer lie there"
    trail = scene.trail()
    assert {(row["action"], row["outcome"], row["target_id"]) for row in trail} == {("REFUSED", "failure", "OrionMX")}
    assert all(row["actor"].startswith("file:") for row in trail)
    assert sorted(json.loads(row["details_json"])["flag"] for row in trail) == sorted(rejected)
    assert {row["task_id"] for row in trail} == {result["task_id"] for result in results}
    assert not any(result["success"] for result in results)
    assert scene.lies_in("processing") == []


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/etc/passwd")])
def test_what_is_no_file_is_rejected_without_being_opened(scene: Scene, make: Callable[[Path], object]) -> None:
    scene.inbox.mkdir()
    make(scene.inbox / NAME)
    assert scene.sweep() == SweepResult(rejected=1)
    assert list(scene.rejected()) == [NAME]
    assert "root:" not in json.dumps(scene.results())


def test_a_flag_half_written_is_left_for_five_seconds_since_we_saw_it_and_then_judged(scene: Scene) -> None:
    path = scene.drop(b'{"task_id": ')
    os.utime(path, (1, 1))  # what its own clock says does not count
    assert scene.sweep() == SweepResult(unripe=1)
    scene.wait(SETTLE_SECONDS - 0.1)
    assert scene.sweep() == SweepResult(unripe=1)
    assert scene.trail() == []
    scene.wait(0.1)
    assert scene.sweep() == SweepResult(rejected=1)
    assert "valid JSON" in scene.rejected()[NAME]


def test_a_flag_that_goes_on_changing_gets_its_five_seconds_anew(scene: Scene) -> None:
    for number in range(4):
        scene.drop(b'{"task_id": "t' + b"x" * number)
        assert scene.sweep() == SweepResult(unripe=1)
        scene.wait(SETTLE_SECONDS - 0.1)
    scene.drop({"task_id": "t1"})
    assert [job.task_id for job in scene.sweep().filed] == ["t1"]


def test_an_empty_flag_means_no_parameters_after_five_seconds(scene: Scene) -> None:
    scene.drop(b" \n", "supervisor_pause_OrionMX_t7.flag")
    assert scene.sweep() == SweepResult(unripe=1)
    scene.wait(SETTLE_SECONDS)
    assert [job.task_id for job in scene.sweep().filed] == ["t7"]


def test_a_task_seen_before_is_answered_with_the_first_outcome_and_not_run_again(scene: Scene) -> None:
    scene.drop({"task_id": "t1", "label": "first"})
    (job,) = scene.sweep().filed
    scene.finish(job, Outcome.done(message="paused", pid=7))
    (first,) = scene.results()
    (scene.outbox / "supervisor_result_pause_t1.json").unlink()
    for _ in range(2):
        scene.drop({"task_id": "t1", "label": "second"})
        assert scene.sweep() == SweepResult()
        assert scene.results() == [first]
    assert scene.queued() == []
    assert len(scene.trail()) == 1


def test_a_task_seen_before_that_still_waits_is_filed_once(scene: Scene) -> None:
    for _ in range(3):
        scene.drop({"task_id": "t1"})
        (job,) = scene.sweep().filed
    assert scene.queued() == [job]
    assert scene.results() == []


def test_a_bad_flag_under_the_id_of_a_good_task_does_not_answer_for_it(scene: Scene) -> None:
    name = "supervisor_pause_OrionMX_t1.flag"
    scene.drop({}, name)
    (job,) = scene.sweep().filed
    scene.drop({"label": "é"}, name)
    assert scene.sweep() == SweepResult(rejected=1)
    scene.finish(job, Outcome.done(message="paused"))
    told = {result["task_id"]: result["success"] for result in scene.results()}
    assert told.pop("t1") is True
    assert list(told.values()) == [False]


def test_the_task_id_made_for_a_flag_outlives_a_crash(scene: Scene) -> None:
    scene.drop({})
    scene.host.inbox.prepare()
    ((_, flag),) = scene.host.inbox.claim_all([(NAME, "task_20260205_143015_abcdefg")])
    assert flag is not None
    (job,) = scene.sweep().filed
    assert job.task_id == "task_20260205_143015_abcdefg"


def test_a_flag_put_into_processing_by_hand_is_followed_like_any_other(scene: Scene) -> None:
    (scene.inbox / "processing").mkdir(parents=True)
    (scene.inbox / "processing" / NAME).write_text('{"task_id": "t1"}')
    assert [job.task_id for job in scene.sweep().filed] == ["t1"]
    assert scene.lies_in("processing") == []


class Sabotaged(Inbox):
    """An inbox where one call fails once, as a drive that goes away does."""

    def __init__(self, inbox: Inbox, call: str, error: Exception) -> None:
        super().__init__(inbox.folder, inbox.folder, 0o640)
        self._call, self._error, self._left = call, error, 1

    def _maybe_fail(self, call: str) -> None:
        if call == self._call and self._left:
            self._left -= 1
            raise self._error

    def read_all(self, flags: Sequence[ClaimedFlag]) -> list[FlagContent]:
        self._maybe_fail("read_all")
        return super().read_all(flags)

    def remove(self, flag: ClaimedFlag) -> None:
        self._maybe_fail("remove")
        super().remove(flag)

    def reject(self, flag: ClaimedFlag, reason: str) -> Path:
        self._maybe_fail("reject")
        return super().reject(flag, reason)

    def settle(self) -> None:
        self._maybe_fail("settle")
        super().settle()


@pytest.mark.parametrize("call", ["settle", "read_all", "remove"])
def test_a_drive_that_goes_away_in_the_middle_costs_no_job_and_the_next_sweep_tells_of_it(
    scene: Scene, call: str
) -> None:
    scene.drop({"task_id": "t1"})
    scene.drop({"task_id": "t2"}, "supervisor_resume_OrionMX.flag")
    broken = Sabotaged(scene.host.inbox, call, DriveUnavailable("It hangs."))
    scene.host = replace(scene.host, inbox=broken)
    with pytest.raises(DriveUnavailable):
        scene.sweep()
    swept = scene.sweep()
    assert sorted(job.task_id for job in swept.filed) == ["t1", "t2"], "whoever runs them is told of both"
    assert len(scene.queued()) == 2
    assert scene.lies_in("processing") == []


def test_a_rejection_cut_off_before_the_file_is_moved_is_told_once(scene: Scene) -> None:
    scene.drop(b"[]")
    scene.host = replace(scene.host, inbox=Sabotaged(scene.host.inbox, "reject", OSError(5, "I/O error")))
    with pytest.raises(OSError, match="I/O error"):
        scene.sweep()
    assert scene.sweep() == SweepResult(rejected=1)
    assert len(scene.trail()) == len(scene.results()) == len(scene.rejected()) == 1


class Sticky(Inbox):
    """An inbox in a folder with the sticky bit, where one flag belongs to somebody else."""

    def claim_all(self, flags: Sequence[tuple[str, str]]) -> list[tuple[str, ClaimedFlag | PermissionError | None]]:
        refused = [(name, PermissionError(1, "Operation not permitted")) for name, _ in flags if name == NAME]
        return [*refused, *super().claim_all([flag for flag in flags if flag[0] != NAME])]


def test_a_flag_that_may_not_be_moved_keeps_no_other_waiting(scene: Scene) -> None:
    scene.drop({})
    scene.drop({"task_id": "t2"}, "supervisor_resume_OrionMX.flag")
    scene.host = replace(scene.host, inbox=Sticky(scene.inbox, scene.inbox, 0o640))
    assert [job.task_id for job in scene.sweep().filed] == ["t2"]
    assert scene.lies_in() == [NAME]


def test_without_the_drive_nothing_is_swept_and_nothing_is_made(scene: Scene) -> None:
    root = scene.host.config.drive_root
    root.rmdir()
    with pytest.raises(DriveUnavailable):
        scene.sweep()
    assert not root.exists()


def test_with_a_secret_only_signed_flags_count_and_they_count_for_their_issuer(scene: Scene) -> None:
    trust = Trust(SECRET, timedelta(hours=1), "TestHost")
    body = {
        "task_id": "t1",
        "handler": "pause",
        "worker_id": "OrionMX",
        "supervisor_id": "TestHost",
        "issued_at": "2026-02-05T14:30:00Z",
        "issuer": {"id": "slack:T/U1", "name": "Zoë 🙂"},
        "approvals": [{"id": "slack:T/U2", "name": "bob", "at": "2026-02-05T14:29:00Z"}],
    }
    scene.drop({**body, "signature": sign(body, SECRET)})
    (job,) = scene.sweep(trust).filed
    assert job.issuer == Issuer("slack:T/U1", "Zoë 🙂")
    assert [vote["id"] for vote in job.approvals] == ["slack:T/U2"]
    scene.drop({**body, "task_id": "t2", "signature": sign(body, SECRET)})
    scene.drop({}, "supervisor_resume_OrionMX.flag")
    assert scene.sweep(trust) == SweepResult(rejected=2)
    assert {row["actor"].partition(":")[0] for row in scene.trail()} == {"file"}


@pytest.mark.parametrize(
    "body",
    [{"signature": "\ud800"}, {"issuer": {"id": "\ud800", "name": "\0"}}, {"issued_at": "0001-01-01T00:00:00+23:59"}],
)
def test_no_signed_flag_breaks_the_sweep_or_the_ledger(scene: Scene, body: dict[str, Any]) -> None:
    whole = {
        "task_id": "t1",
        "handler": "pause",
        "worker_id": "OrionMX",
        "supervisor_id": "TestHost",
        "issued_at": START.isoformat(),
        **body,
    }
    whole.setdefault("signature", sign(whole, SECRET))
    scene.drop(whole)
    assert scene.sweep(Trust(SECRET, timedelta(hours=1), "TestHost")) == SweepResult(rejected=1)
    assert len(scene.results()) == 1


@pytest.mark.parametrize("error", ["can't read '\udcff.txt'", "nul \0", "U+2028 \u2028"])
def test_a_result_is_written_whatever_is_in_it(scene: Scene, error: str) -> None:
    scene.drop({"task_id": "t1"})
    (job,) = scene.sweep().filed
    scene.finish(job, Outcome.failed(error, path="\udcff", tail="\0"))
    (result,) = scene.results()
    assert result["success"] is False
    assert result["details"] == {"path": "\udcff", "tail": "\0"}


def test_a_result_that_can_not_be_written_holds_up_no_other(scene: Scene) -> None:
    for name in ("t1", "t2"):
        scene.drop({"task_id": name})
        (job,) = scene.sweep().filed
        scene.finish(job, Outcome.done(share=float("nan") if name == "t1" else 0.5))
    assert [result["task_id"] for result in scene.results()] == ["t2"]
    assert scene.ledger.read(lambda connection: count_pending(connection, jobs.RESULT_FILE)) == 1


def test_a_folder_in_the_place_of_a_result_holds_up_no_other(scene: Scene) -> None:
    (scene.outbox / "supervisor_result_pause_t1.json" / "x").mkdir(parents=True)
    for name in ("t1", "t2", "t3"):
        scene.drop({"task_id": name})
        (job,) = scene.sweep().filed
        scene.finish(job, Outcome.done())
    assert results.deliver(scene.host, scene.ledger) == 2
    assert {path.name for path in scene.outbox.iterdir() if path.is_file()} == {
        f"supervisor_result_pause_{name}.json" for name in ("t2", "t3")
    }, "no temporary file is left either"
    assert scene.ledger.read(lambda connection: count_pending(connection, jobs.RESULT_FILE)) == 1


def test_results_wait_for_the_drive_in_order(scene: Scene) -> None:
    scene.drop({"task_id": "t1"})
    (job,) = scene.sweep().filed
    scene.finish(job, Outcome.done())
    release = threading.Event()
    with pytest.raises(DriveUnavailable):
        scene.host.drive.call(release.wait, timeout=0.02)
    assert results.deliver(scene.host, scene.ledger) == 0
    assert scene.ledger.read(lambda connection: count_pending(connection, jobs.RESULT_FILE)) == 1
    release.set()
    wait_until(lambda: not scene.host.drive.hangs, 5, "the drive is back")
    later = datetime.now(UTC) + timedelta(seconds=outbox.LONGEST_RETRY_SECONDS)
    (waits,) = scene.ledger.read(lambda connection: outbox.due_messages(connection, jobs.RESULT_FILE, later))
    assert waits.attempts == 1
    wait_until(lambda: results.deliver(scene.host, scene.ledger) == 1, 5, "it is written after its second")
    assert (scene.outbox / "supervisor_result_pause_t1.json").stat().st_mode & 0o777 == 0o640
