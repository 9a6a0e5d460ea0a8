"""The tour: a session over the real Socket Mode, played without a browser, with a check at each step."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from bot.demo.guide import ExpectedError, Guide
from bot.demo.home import WORKER
from bot.demo.stage import APPROVER, CHANNEL, OPERATOR, VIEWER, Stage
from bot.demo.transcript import Transcript
from slack_playground.testing.playground import NotSeen

LABEL = "hotfix test"
SLOW = "slow since noon"
SCHEDULE = "mornings"
ERROR = "has no title"  # of the worker, when a file is empty
THIRD = "(3 of 5 this hour)"  # in the alert, while it waits for its third restart
FAST, SLOWER = "poll_seconds: 0.5", "poll_seconds: 2"  # the newest version of the worker's settings and the one before


async def status(guide: Guide) -> None:
    """Check the worker"""
    await guide.asks(OPERATOR, "/supervisor status", WORKER)
    guide.expect("the worker's state", await guide.state(), "running")


async def pause(guide: Guide) -> None:
    """Pause the worker and say why"""
    text = f"/supervisor pause {LABEL}"
    guide.page.types(OPERATOR, text)
    card = await guide.person(OPERATOR).slash(text)
    await guide.follows(card)
    guide.expect("the worker's state", await guide.state(), "stopped")
    await guide.stage.slack.channel(CHANNEL).shows(1, "message")
    guide.expect("the worker's processes", await guide.processes(), [])
    guide.page.holds(f"one message in #{CHANNEL}, updated in place")
    guide.page.holds("no process of the worker is left")


async def refused(guide: Guide) -> None:
    """A viewer can't pause a worker"""
    await guide.asks(VIEWER, "/supervisor pause")
    await guide.stage.slack.channel(CHANNEL).shows(1, "message")
    guide.page.holds("nothing changed, and nobody else was notified")


async def trail(guide: Guide) -> None:
    """Look up who paused it"""
    guide.page.runs("supervisor audit")
    rows = await guide.audit()
    table = [("OUTCOME", "TIME (UTC)", "COMMAND", "LABEL")]
    table += [(row["outcome"], row["created_at"][11:19], row["action"].lower(), row["label"]) for row in rows]
    guide.page.table(table, "(shortened)")
    guide.expect("the actions in the audit trail", [row["action"] for row in rows], ["PAUSE", "REFUSED"])
    guide.expect("the label of the pause", rows[0]["label"], f"{OPERATOR} - {LABEL}")
    guide.expect("the outcome of the pause", rows[0]["outcome"], "success")
    who = guide.person(OPERATOR).id
    guide.expect("the actor of the pause", rows[0]["actor"].rpartition("/")[2], who)
    guide.expect("the label of the refusal", rows[1]["label"], VIEWER)
    guide.page.holds(f"{OPERATOR} paused it ({rows[0]['actor']})")


async def resume(guide: Guide) -> None:
    """Resume it with a mention"""
    guide.page.types(OPERATOR, f"@{guide.bot} resume")
    card = await guide.person(OPERATOR).says("@bot resume")
    await guide.follows(card)
    pids = await guide.processes()
    guide.expect("the number of processes", len(pids), 1)
    guide.page.holds(f"it's running as pid {pids[0]}")


async def alert(guide: Guide) -> None:
    """The worker crashes"""
    guide.page.runs("touch incoming/spec-004.txt")
    broken = guide.stage.home.incoming / "spec-004.txt"
    broken.touch()
    card = await guide.message_with("Acknowledge")
    await card.shows(ERROR)
    guide.shows(card)
    await guide.presses(OPERATOR, "Acknowledge", card)
    await card.shows(f"@{OPERATOR}")
    guide.page.holds(f"the alert in #{CHANNEL} shows who acknowledged it")
    await card.shows(THIRD)  # it waits for seconds then, so the answer isn't that it is starting
    guide.page.holds("the same message counts its restarts")
    answer = await guide.presses(APPROVER, "Why?", card)
    await answer.shows(ERROR)
    guide.shows(answer)
    guide.page.runs("rm incoming/spec-004.txt")
    broken.unlink()
    await card.button("Acknowledge").is_gone()
    await card.button("Snooze 1h").is_gone()
    guide.shows(card)
    guide.expect("the worker's state", await guide.state(), "running")
    guide.page.holds("it restarted on its own, and the alert has closed")


async def rollback(guide: Guide) -> None:
    """Roll back a commit, with an approval"""
    text = f"/supervisor rollback 1 {SLOW}"
    guide.page.types(OPERATOR, text)
    card = await guide.person(OPERATOR).slash(text)
    await card.shows("Look twice a second")
    guide.shows(card)
    own = await guide.presses(OPERATOR, "Approve", card)
    await own.is_private()
    guide.shows(own, f"(only {OPERATOR} sees this)")
    await guide.presses(APPROVER, "Approve", card)
    await guide.follows(card)
    guide.expect("the settings of the worker", _poll(guide), SLOWER)
    guide.page.holds("the commit is reverted, and the worker runs the code before it")
    await card.thread_shows(f"@{APPROVER}")
    guide.page.holds("both people were notified in its thread")


async def undo(guide: Guide) -> None:
    """Undo the rollback"""
    card = await guide.message_with("Undo")
    undone = await guide.presses(OPERATOR, "Undo", card)
    await guide.presses(APPROVER, "Approve", undone)
    await guide.follows(undone)
    guide.expect("the settings of the worker", _poll(guide), FAST)
    await card.button("Undo").is_gone()
    guide.page.holds("every file is as it was")


async def home(guide: Guide) -> None:
    """Open the app's Home tab"""
    view = await guide.person(OPERATOR).opens_home()
    await view.shows(WORKER)
    guide.shows(view, f"(only {OPERATOR} sees this)")


async def schedule(guide: Guide) -> None:
    """Schedule a restart"""
    text = f'/supervisor schedule add {SCHEDULE} "weekdays 08:30" restart'
    guide.page.types(OPERATOR, text)
    card = await guide.person(OPERATOR).slash(text)
    await card.shows(SCHEDULE)
    guide.shows(card)
    await guide.asks(OPERATOR, "/supervisor schedule list", SCHEDULE)


async def mistake(guide: Guide) -> None:
    """Mistype a command"""
    await guide.asks(OPERATOR, "/supervisor puase", f"/supervisor pause {WORKER}")


async def helped(guide: Guide) -> None:
    """Get help for a command"""
    await guide.asks(OPERATOR, "/supervisor help pause", "pause [target]")


async def verified(guide: Guide) -> None:
    """Verify the audit trail"""
    guide.page.runs("supervisor audit verify")
    said = await guide.stage.home.supervisor("audit", "verify")
    guide.page.shows("", said.split("\n"))
    guide.page.holds("no row was changed or removed")


def _poll(guide: Guide) -> str:
    lines = (guide.stage.home.checkout / "watcher.yaml").read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith("poll_seconds")), "")


Scene = Callable[[Guide], Awaitable[None]]

SCENES: tuple[Scene, ...] = (
    *(status, pause, refused, trail, resume, alert),
    *(rollback, undo, home, schedule, mistake, helped, verified),
)
"""In order. The first line of each docstring is the scene's title."""


async def tour(stage: Stage, scenes: Sequence[Scene] = SCENES) -> bool:
    """Play these scenes; False if a check failed, which is printed."""
    page = Transcript()
    begun = time.monotonic()
    for number, scene in enumerate(scenes, start=1):
        title = (scene.__doc__ or "").split("\n")[0]
        page.scene(number, title)
        try:
            await scene(Guide(stage, page))
        except (ExpectedError, NotSeen) as error:
            page.fails(f"Scene {number}, {title!r}, failed.\n{error}")
            return False
    page.ends(f"{len(scenes)} scenes in {time.monotonic() - begun:.1f} s. All checks passed.")
    return True
