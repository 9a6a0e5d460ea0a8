"""The scenes of `supervisor demo --tour`, in order, with a check at each step. The first line of each docstring is the
scene's title."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from bot.demo.host import WORKER
from bot.demo.stage import ADDRESSES, APPROVER, CHANNEL, HOSTS, OPERATOR, VIEWER
from bot.demo.tour import Scene, Tour
from supervisor_core.processes.manager import HostProcesses

LABEL = "hotfix test"
ERROR = "has no title"  # of the worker, when a file is empty
THIRD = "(3 of 5 this hour)"  # in the alert, while it waits for its third restart
FAST, SLOWER = "poll_seconds: 0.5", "poll_seconds: 2"  # the newest version of the worker's settings and the one before
LOST = HOSTS[-1]


async def status(tour: Tour) -> None:
    """Check the worker"""
    await tour.asks(OPERATOR, "/supervisor status", WORKER)
    tour.expect("the worker's state", await _state(tour), "running")


async def pause(tour: Tour) -> None:
    """Pause the worker and say why"""
    await tour.gives(OPERATOR, f"/supervisor pause {LABEL}")
    tour.expect("the worker's state", await _state(tour), "stopped")
    await tour.stage.slack.channel(CHANNEL).shows(1, "message")
    tour.expect("the worker's processes", await _processes(tour), [])
    tour.holds(f"one message in #{CHANNEL}, updated in place")
    tour.holds("no process of the worker is left")


async def refused(tour: Tour) -> None:
    """A viewer can't pause a worker"""
    await tour.asks(VIEWER, "/supervisor pause")
    await tour.stage.slack.channel(CHANNEL).shows(1, "message")
    tour.holds("nothing changed, and nobody else was notified")


async def trail(tour: Tour) -> None:
    """Look up who paused it"""
    tour.acts("shell", "$ supervisor audit")
    rows: list[dict[str, Any]] = json.loads(await tour.stage.home.supervisor("audit", "--json"))[::-1]
    tour.prints("", (f"{row['outcome']:8} {row['action'].lower():8} {row['label']}" for row in rows))
    tour.expect("the actions in the audit trail", [row["action"] for row in rows], ["PAUSE", "REFUSED"])
    tour.expect("the labels", [row["label"] for row in rows], [f"{OPERATOR} - {LABEL}", VIEWER])
    tour.expect("the outcome of the pause", rows[0]["outcome"], "success")
    tour.expect("the actor of the pause", rows[0]["actor"].rpartition("/")[2], tour.person(OPERATOR).id)
    tour.holds(f"{OPERATOR} paused it ({rows[0]['actor']})")


async def resume(tour: Tour) -> None:
    """Resume it with a mention"""
    await tour.gives(OPERATOR, "@bot resume")
    pids = await _processes(tour)
    tour.expect("the number of processes", len(pids), 1)
    tour.holds(f"it's running as pid {pids[0]}")


async def alert(tour: Tour) -> None:
    """The worker crashes"""
    broken = tour.stage.home.incoming / "spec-004.txt"
    tour.acts("shell", "$ touch incoming/spec-004.txt")
    broken.touch()
    card = await tour.message_with("Acknowledge")
    await card.shows(ERROR)
    tour.shows(card)
    await tour.presses(OPERATOR, "Acknowledge", card)
    await card.shows(f"@{OPERATOR}")
    tour.holds(f"the alert in #{CHANNEL} shows who acknowledged it")
    await card.shows(THIRD)  # it waits for seconds then, so the answer isn't that it is starting
    tour.holds("the same message counts its restarts")
    answer = await tour.presses(APPROVER, "Why?", card)
    await answer.shows(ERROR)
    tour.shows(answer)
    tour.acts("shell", "$ rm incoming/spec-004.txt")
    broken.unlink()
    for button in ("Acknowledge", "Snooze 1h"):
        await card.button(button).is_gone()
    tour.shows(card)
    tour.expect("the worker's state", await _state(tour), "running")
    tour.holds("it restarted on its own, and the alert has closed")


async def rollback(tour: Tour) -> None:
    """Roll back a commit, with an approval"""
    card = await tour.types(OPERATOR, "/supervisor rollback 1 slow since noon")
    await card.shows("Look twice a second")
    tour.shows(card)
    own = await tour.presses(OPERATOR, "Approve", card)
    await own.is_private()
    tour.shows(own, f"(only {OPERATOR} sees this)")
    await tour.presses(APPROVER, "Approve", card)
    await tour.follows(card)
    tour.expect("the settings of the worker", _poll_setting(tour), SLOWER)
    tour.holds("the commit is reverted, and the worker runs the code before it")
    await card.thread_shows(f"@{APPROVER}")
    tour.holds("both people were notified in its thread")


async def undo(tour: Tour) -> None:
    """Undo the rollback"""
    card = await tour.message_with("Undo")
    undone = await tour.presses(OPERATOR, "Undo", card)
    await tour.presses(APPROVER, "Approve", undone)
    await tour.follows(undone)
    await undone.thread_shows(f"@{APPROVER}")  # not taken for the answer to what is typed next
    tour.expect("the settings of the worker", _poll_setting(tour), FAST)
    await card.button("Undo").is_gone()
    tour.holds("every file is as it was")


async def home(tour: Tour) -> None:
    """Open the app's Home tab"""
    view = await tour.person(OPERATOR).opens_home()
    await view.shows(WORKER)
    tour.shows(view, f"(only {OPERATOR} sees this)")


async def mistake(tour: Tour) -> None:
    """Mistype a command"""
    await tour.asks(OPERATOR, "/supervisor puase", "Did you mean /supervisor pause")


async def verified(tour: Tour) -> None:
    """Verify the audit trail"""
    tour.acts("shell", "$ supervisor audit verify")
    tour.prints("", (await tour.stage.home.supervisor("audit", "verify")).split("\n"))
    tour.holds("no row was changed or removed")


async def fleet_status(tour: Tour) -> None:
    """Check all hosts"""
    await tour.asks(OPERATOR, "/supervisor status", *ADDRESSES)
    tour.expect("the states of the workers", set((await _on_hosts(tour, "state")).values()), {"running"})
    tour.holds("one bot answers for three hosts")


async def fleet_restart(tour: Tour) -> None:
    """Restart a worker on every host, one after the other"""
    before = await _on_hosts(tour, "pid")
    await tour.gives(OPERATOR, f"/supervisor restart */{WORKER} new settings")
    after = await _on_hosts(tour, "pid")
    tour.expect("the workers with a new process", [name for name in before if before[name] != after[name]], [*before])
    tour.holds("each host has a new process of its worker")


async def fleet_pause(tour: Tour) -> None:
    """One command to all hosts is one message"""
    messages = tour.stage.slack.channel(CHANNEL).channel.messages
    before = len(messages)
    await tour.gives(OPERATOR, "/supervisor pause all maintenance")
    tour.expect("the states of the workers", set((await _on_hosts(tour, "state")).values()), {"stopped"})
    tour.expect("the number of new messages", len(messages) - before, 1)
    tour.holds(f"one message in #{CHANNEL} for {len(HOSTS)} hosts")
    await tour.gives(OPERATOR, "/supervisor resume all")
    tour.expect("the states of the workers", set((await _on_hosts(tour, "state")).values()), {"running"})


async def lost_host(tour: Tour) -> None:
    """A host dies, and comes back"""
    host = tour.stage.hosts[LOST]
    tour.acts("shell", f"$ kill -9 {host.process.pid}  # the daemon of {LOST}")
    await host.kill()
    started_at = time.monotonic()
    card = await tour.message_with("Acknowledge")
    await card.shows(LOST)
    tour.shows(card, f"(after {time.monotonic() - started_at:.0f} s)")
    await tour.asks(OPERATOR, f"/supervisor status {LOST}/{WORKER}", "unresponsive")
    tour.acts("shell", f"$ supervisor daemon start  # on {LOST}")
    await host.start({})
    await card.button("Acknowledge").is_gone()
    tour.shows(card)
    tour.holds("one alert told it, and closed on its own; the worker ran on")


async def _state(tour: Tour) -> str:
    return str((await tour.stage.home.status())["workers"][0]["state"])


async def _processes(tour: Tour) -> list[int]:
    """The pids of the worker's process tree."""
    members = await asyncio.to_thread(HostProcesses(tour.stage.home.state_dir).members, WORKER)
    return [member.pid for member in members]


def _poll_setting(tour: Tour) -> str:
    lines = (tour.stage.home.checkout / "watcher.yaml").read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith("poll_seconds")), "")


async def _on_hosts(tour: Tour, key: str) -> dict[str, Any]:
    """A fact about each worker as its host's own daemon reports it."""
    found = {name: (await host.status())["workers"] for name, host in tour.stage.hosts.items()}
    return {f"{name}/{worker['id']}": worker[key] for name, workers in found.items() for worker in workers}


SCENES: tuple[Scene, ...] = (
    *(status, pause, refused, trail, resume, alert),
    *(rollback, undo, home, mistake, verified),
)
FLEET_SCENES: tuple[Scene, ...] = (fleet_status, fleet_restart, fleet_pause, lost_host, verified)
