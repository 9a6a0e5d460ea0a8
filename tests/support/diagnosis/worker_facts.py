"""Facts of workers in each kind of trouble, as they would be gathered at one moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from supervisor_core.alerts.flips import Flip
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.diagnosis.why.model import Disk, KnownPause, RecentChange, RecentConfiguration, WorkerFacts
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.workers.conditions import WORKER, Condition, Target
from supervisor_core.workers.health import Health, Heartbeat, WorkerState
from supervisor_core.workers.restarts.policy import WorkerRun
from tests.support.daemon.worker_statuses import worker_status

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
ANNA = Issuer("slack:T1/U0ANNA", "Anna")
TRACEBACK = (
    "2026-02-05T14:27:58Z INFO reading archive 17",
    "Traceback (most recent call last):",
    '  File "watcher.py", line 12, in <module>',
    "    read(archive)",
    "ValueError: no such archive",
)


def ago(seconds: float) -> datetime:
    """So long before now."""
    return NOW - timedelta(seconds=seconds)


def running(**facts: Any) -> WorkerFacts:
    """One that runs and is well; `seen` are changes of what was observed."""
    beat = Heartbeat("running", ago(2))
    usual = {"state": WorkerState.RUNNING, "started_at": ago(3 * 86400), "heartbeat": beat}
    seen = worker_status("OrionMX", NOW, **{**usual, **facts.pop("seen", {})})
    made = WorkerFacts("OrionMX", NOW, WorkerState.RUNNING, Health.HEALTHY, "running, heartbeat 2 s ago", True, seen)
    file = "/nas/00_STATE/watcher_heartbeat_OrionMX.json"
    return replace(made, log="/nas/05_LOGS/workers/OrionMX.log", drive="/nas", heartbeat_file=file, **facts)


def unwell(health: Health, reason: str, **facts: Any) -> WorkerFacts:
    """One that runs and is not well."""
    return running(health=health, reason=reason, fine=False, **facts)


def down(*lives: WorkerRun, **facts: Any) -> WorkerFacts:
    """One that ended by itself."""
    seen = {"state": WorkerState.STOPPED, "pid": None, "started_at": None, **facts.pop("seen", {})}
    usual = {"fine": False, "state": WorkerState.STOPPED, "health": Health.MISSING, "reason": "not running"}
    return running(seen=seen, lives=lives, **{"lines": TRACEBACK, "policy": "on-failure", **usual, **facts})


def life(ended_ago: float, code: int | None = 1, lived: float = 12.0, **more: Any) -> WorkerRun:
    """One that ended so many seconds ago."""
    return WorkerRun(ago(ended_ago + lived), ago(ended_ago), code, lived_seconds=lived, **more)


def job(handler: str, finished_ago: float, issuer: Issuer = ANNA, label: str | None = None, **more: Any) -> Job:
    """One that took two seconds."""
    files = [{"change": "changed", "path": "watcher.py"}]
    details = {"before": "a" * 40, "after": "b" * 40, "files": files} if handler.endswith(("code", "deps")) else {}
    made = Job(
        job_id=int(finished_ago),
        supervisor_id="Host",
        task_id=f"task_20260205_{int(finished_ago)}",
        worker_id="OrionMX",
        handler=handler,
        params={},
        label=label,
        issuer=issuer,
        door="slack",
        state=JobState.DONE,
        filed_at=ago(finished_ago + 2),
        outcome=Outcome.done(**details),
        finished_at=ago(finished_ago),
    )
    return replace(made, **more)


def flip(new: Condition, at_ago: float, reason: str = "", old: Condition = Condition.WELL) -> Flip:
    """A change of its condition."""
    return Flip(int(at_ago), Target(WORKER, "OrionMX"), old, new, reason, ago(at_ago), ago(at_ago))


UPDATE = job("update_code", 150, label="new reader")
CHANGE = RecentChange(UPDATE, ago(150), "OrionMX", BakeState.DEGRADED, undoable=True)
FULL = Disk("the drive", "/nas", 12_288, 0.0)
ADDED = RecentConfiguration(ANNA, ago(180), ("OrionMX: added",), "config_20260205_1")
ROOMY = Disk("the state folder", "/var/lib/supervisor", 77_300_000_000, 60.0)

TROUBLES: dict[str, WorkerFacts] = {
    "well": running(jobs=(job("restart_watcher", 3 * 86400, label="nightly"),)),
    "back": running(lives=(life(300), life(60)), lines=TRACEBACK, seen={"started_at": ago(55)}),
    "deploy": down(life(137), life(120), life(60), change=CHANGE, jobs=(UPDATE,), lines=TRACEBACK),
    "deploy_undone": down(life(137), change=replace(CHANGE, undone=True), jobs=(UPDATE,)),
    "deploy_given_up": down(
        life(137), change=CHANGE, jobs=(UPDATE,), given_up="it was started 5 times", given_up_at=ago(20)
    ),
    "deploy_degraded": unwell(
        Health.DEGRADED,
        "reports an error: no index",
        change=CHANGE,
        since=ago(100),
        seen={"heartbeat": Heartbeat("running", ago(2), "no index")},
    ),
    "deploy_unproven": down(life(137), life(60), change=CHANGE, jobs=(UPDATE,), lines=("INFO reading",)),
    "killed_after_deploy": down(
        life(137, -9, memory_kills=0), life(60, -9, memory_kills=0), change=CHANGE, jobs=(UPDATE,), lines=TRACEBACK
    ),
    "killed_and_quarantined_after_deploy": down(
        *(life(140 - 30 * number, -9, memory_kills=0) for number in range(5)),
        change=CHANGE,
        jobs=(UPDATE,),
        given_up="it was started 5 times",
        given_up_at=ago(20),
        starts=5,
        lines=(),
    ),
    "stopped_after_deploy": down(life(137, -15), change=CHANGE, jobs=(UPDATE,), lines=()),
    "out_of_memory": down(
        life(137, -9, memory_kills=1), jobs=(job("pause", 9000), job("resume", 8000)), lines=("INFO reading",)
    ),
    "out_of_memory_after_deploy": down(life(137, -9, memory_kills=2), change=CHANGE, jobs=(UPDATE,), lines=()),
    "memory_error": down(life(137), lines=(*TRACEBACK[:-1], "MemoryError")),
    "killed": down(life(137, -9, memory_kills=0), lines=()),
    "killed_unknown": down(life(137, 137), lines=()),
    "frozen": unwell(Health.FROZEN, "stopped by a signal for 75 s", seen={"frozen_seconds": 75.0}, since=ago(75)),
    "drive_away": unwell(
        Health.UNKNOWN,
        "running, but its heartbeat can't be read: the drive is unreachable",
        seen={"heartbeat_known": False, "heartbeat": None},
        drive_problem="The drive isn't mounted: /nas isn't a folder. Mount it, or correct nas.root.",
        unknown=("/nas/05_LOGS/workers/OrionMX.log can't be read: it lies on the drive",),
    ),
    "drive_away_and_down": down(
        life(137), drive_problem="The drive at /nas hangs. Check the mount.", lines=(), seen={"heartbeat_known": False}
    ),
    "paused": down(
        fine=True,
        health=Health.UNKNOWN,
        reason="paused",
        seen={"paused": True},
        paused=KnownPause(ANNA, ago(7200), "the disk is moved"),
        jobs=(job("pause", 7200, label="the disk is moved"),),
        lines=(),
    ),
    "paused_by_hand": down(fine=True, reason="paused", seen={"paused": True}, paused=KnownPause(), lines=()),
    "quarantined": down(
        *(life(200 - 30 * number) for number in range(6)),
        given_up="quarantined after 5 restarts in an hour",
        given_up_at=ago(50),
        starts=5,
        state=WorkerState.QUARANTINED,
    ),
    "disk_full": down(
        life(137), disks=(ROOMY, FULL), lines=(*TRACEBACK[:-1], "OSError: [Errno 28] No space left on device")
    ),
    "disk_full_no_word": unwell(Health.STALE, "last heartbeat 6 min 40 s ago", disks=(FULL,), since=ago(100)),
    "disk_was_full": down(life(137), disks=(ROOMY,), lines=("write: No space left on device",)),
    "hung": unwell(
        Health.STALE,
        "last heartbeat 6 min 40 s ago (limit 5 min)",
        seen={"heartbeat": Heartbeat("running", ago(400))},
        flips=(flip(Condition.STALE, 100, "no heartbeat for more than 5 min"),),
        since=ago(100),
        lines=(
            "2026-02-05T14:23:30Z ERROR lock of archive 17 is taken",
            "2026-02-05T14:23:31Z ERROR lock of archive 18",
        ),
    ),
    "no_progress": unwell(
        Health.DEGRADED,
        "made no progress for 6 min 52 s (limit 5 min)",
        seen={"heartbeat": Heartbeat("running", ago(1), progress=ago(412))},
        flips=(flip(Condition.STUCK, 112, "no progress for 5 min, although it sends heartbeats"),),
        since=ago(112),
        lines=("2026-02-05T14:23:08Z ERROR archive 18 has no end",),
    ),
    "silent": unwell(Health.MISSING, "no heartbeat", seen={"heartbeat": None, "started_at": ago(400)}),
    "probe": unwell(
        Health.DEGRADED, "running, but the probe http fails", seen={"probe_failing": "http://localhost:8080 says 503"}
    ),
    "says_so": unwell(
        Health.DEGRADED, "it reports", seen={"heartbeat": Heartbeat("running", ago(2), "the index is broken")}
    ),
    "clock": unwell(
        Health.UNKNOWN, "in the future", seen={"heartbeat": Heartbeat("running", ago(-90), hostname="nas2")}
    ),
    "stuck": down(
        state=WorkerState.STUCK, seen={"state": WorkerState.STUCK}, survivors=("python (pid 4711, state D)",), lines=()
    ),
    "not_known": unwell(
        Health.UNKNOWN, "x", seen={"state": WorkerState.STUCK, "unverifiable": "pid 4711 may be it. Look at it."}
    ),
    "not_enabled": down(fine=True, seen={"enabled": False}, lines=()),
    "set_aside": down(fine=True, seen={"quarantined": True}, state=WorkerState.QUARANTINED, lines=()),
    "not_startable": down(start_error="the program /opt/watcher is not there", lines=()),
    "monitoring_paused": down(resting="paused by Anna", resting_by=ANNA, resting_since=ago(3600), lines=()),
    "died": down(life(10), due_at=ago(-20), starts=3, state=WorkerState.BACKING_OFF),
    "not_restarted": down(life(137), policy="never"),
    "ended_well": down(life(137, 0), fine=True, lines=()),
    "starting": down(state=WorkerState.STARTING, fine=True, lines=()),
    "starting_again": running(
        lives=(life(60), life(20)),
        lines=TRACEBACK,
        state=WorkerState.STARTING,
        health=Health.UNKNOWN,
        reason="starting",
        fine=False,
        seen={"started_at": ago(1)},
    ),
    "configuration": down(life(137), life(60), settings=ADDED, lines=("INFO reading", "", "can't open the index")),
    "killed_after_configuration": down(life(60, -9, memory_kills=0), settings=ADDED, lines=()),
    "not_running": down(lines=()),
}
"""By name; what is longest of each is in the test of the longest."""

HOSTILE = "<!channel> <@U1> <https://x|y> *bold* `code` & \u202e\x07 " + "W" * 3000
