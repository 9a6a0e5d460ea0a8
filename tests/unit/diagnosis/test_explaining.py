"""Why a worker is as it is, by what was gathered of it: the most fundamental cause is named, and no more than known.

`UPDATE_GOLDEN=1 pytest tests/unit/diagnosis/test_explaining.py` rewrites the files.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.views.answers.why import why
from bot.views.blocks import blocks_of
from slack_playground.blockkit.messages import check_message
from supervisor_core.cli.why import explanation_text
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.commands.phrases import plain
from supervisor_core.common.text import flatten
from supervisor_core.diagnosis.why.explanation import explain
from supervisor_core.diagnosis.why.model import Cause, KnownPause
from supervisor_core.workers.conditions import Condition
from supervisor_core.workers.health import Heartbeat, WorkerState
from tests.support.diagnosis.worker_facts import (
    ANNA,
    CHANGE,
    FULL,
    HOSTILE,
    TROUBLES,
    UPDATE,
    ago,
    down,
    flip,
    job,
    life,
    running,
)
from tests.support.sampling import examples

GOLDEN = Path(__file__).parents[1] / "golden"
NONCE = "20260205143000-ab12cd34e"

CAUSES = {
    "deploy_undone": Cause.DEPLOY,
    "deploy_given_up": Cause.DEPLOY,
    "deploy_degraded": Cause.DEPLOY,
    "out_of_memory_after_deploy": Cause.OUT_OF_MEMORY,
    "memory_error": Cause.OUT_OF_MEMORY,
    "deploy_unproven": Cause.DEPLOY,
    "killed_after_deploy": Cause.KILLED,
    "killed_and_quarantined_after_deploy": Cause.QUARANTINED,
    "stopped_after_deploy": Cause.DIED,
    "killed_unknown": Cause.KILLED,
    "drive_away_and_down": Cause.DRIVE_AWAY,
    "paused_by_hand": Cause.PAUSED,
    "disk_full_no_word": Cause.DISK_FULL,
    "disk_was_full": Cause.DISK_FULL,
    "starting": Cause.UNDER_WAY,
    "starting_again": Cause.UNDER_WAY,
    "killed_after_configuration": Cause.KILLED,
}
"""Of those that are not called after it."""


def anything(_: Command) -> bool:
    """What a reader with every right may do."""
    return True


def shown(name: str) -> dict[str, Any]:
    made = why([explain(TROUBLES[name])], NONCE, anything)
    assert check_message(made, update=True) == []
    return made


def test_each_trouble_has_its_cause_and_is_told_as_it_was_last_looked_at() -> None:
    wrong = []
    for name, facts in TROUBLES.items():
        told, path = explain(facts), GOLDEN / f"why_{name}.json"
        made = {"in_the_shell": explanation_text(told, is_only=True).split("\n"), "in_slack": shown(name)}
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
        if told.cause != CAUSES.get(name, name) or made != json.loads(path.read_text()):
            wrong.append(f"{name}: {told.cause}: {made['in_the_shell']}")
    assert wrong == []
    assert {path.stem.removeprefix("why_") for path in GOLDEN.glob("why_*.json")} == set(TROUBLES) | {"several"}


def test_several_have_a_paragraph_each_where_they_are_in_trouble_and_a_line_where_not() -> None:
    names = ("deploy", "frozen", "well", "paused")
    told = [replace(explain(TROUBLES[name]), worker_id=name.capitalize()) for name in names]
    made = why(told, NONCE, anything)
    assert check_message(made, update=True) == []
    path = GOLDEN / "why_several.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    assert made == json.loads(path.read_text())


def test_who_may_do_nothing_has_no_buttons_and_reads_the_same() -> None:
    told = [explain(TROUBLES["deploy"])]
    bare, whole = why(told, NONCE, lambda _: False), why(told, NONCE, anything)
    assert [block for block in blocks_of(whole) if block["type"] != "actions"] == blocks_of(bare)


def test_what_a_command_was_to_bring_about_is_told_once_and_what_went_wrong_with_it_as_well() -> None:
    done = (job("pause", 300), job("update_code", 200))
    changed = (flip(Condition.PAUSED, 300), flip(Condition.WELL, 250), flip(Condition.DEGRADED, 199))
    told = explain(down(life(137), jobs=done, flips=changed))
    words = [" ".join(plain(each.words).rstrip(":").replace(":", "").split()[:2]) for each in told.before]
    assert words == ["pause by", "became healthy", "update by", "became degraded", "exited (code"]


def test_where_others_read_along_nobody_is_called() -> None:
    for facts in TROUBLES.values():
        told = explain(facts)
        for made in (why([told], NONCE, anything, alone=False), why([told] * 3, NONCE, anything, alone=False)):
            assert "<@" not in json.dumps(made)


def test_a_change_is_not_blamed_for_what_was_so_before_it() -> None:
    before = down(life(600), life(137), change=CHANGE, jobs=(UPDATE,))
    assert explain(before).cause is Cause.DIED
    long_ago = replace(CHANGE, job=job("update_code", 86400), at=ago(86400), baked=BakeState.WELL)
    assert explain(down(life(137), change=long_ago)).cause is Cause.DIED
    assert explain(down(life(137), change=replace(long_ago, baked=BakeState.DEGRADED))).cause is Cause.DEPLOY


def test_a_change_is_not_blamed_for_a_worker_that_has_never_sent_a_heartbeat() -> None:
    never = replace(TROUBLES["silent"], change=CHANGE)
    assert explain(never).cause is Cause.SILENT
    earlier = replace(never, seen=replace(never.seen, heartbeat=Heartbeat("running", ago(900))))
    assert explain(earlier).cause is Cause.DEPLOY


def test_a_kill_alone_is_not_called_a_lack_of_memory() -> None:
    for kills, said in ((None, "isn't known here"), (0, "no out-of-memory kill recorded")):
        told = explain(down(life(137, -9, memory_kills=kills), lines=()))
        assert told.cause is Cause.KILLED
        assert said in " ".join(map(plain, (told.found.sentence, *told.found.also)))
    told = explain(down(life(137, -15, memory_kills=3), lines=()))
    assert told.cause is Cause.DIED, "what was asked to end was not killed by the kernel"


def test_what_is_more_fundamental_comes_first() -> None:
    everything = replace(TROUBLES["disk_full"], change=CHANGE, given_up="it was started 5 times", start_error="")
    order = [explain(everything).cause]
    everything = replace(everything, drive_problem="The drive hangs.")
    order.append(explain(everything).cause)
    everything = replace(everything, paused=KnownPause(ANNA, ago(10), ""))
    order.append(explain(everything).cause)
    assert order == [Cause.DISK_FULL, Cause.DRIVE_AWAY, Cause.PAUSED]
    assert explain(replace(running(), disks=(FULL,))).cause is Cause.WELL, "a full disk alone makes no worker unwell"


def test_a_quarantined_worker_whose_start_failed_is_not_said_to_retry() -> None:
    told = explain(replace(TROUBLES["quarantined"], start_error="OrionMX exited (code 1) within 2 s of its start."))
    assert told.cause is Cause.QUARANTINED
    assert "retries automatically" not in plain(told.found.todo)


def test_recent_events_are_the_last_before_the_problem_and_the_newest_since() -> None:
    asked = tuple(job("pause" if number % 2 else "resume", 1000 - number) for number in range(9))
    told = explain(down(life(137), jobs=(*asked, job("restart_watcher", 30)), lines=()))
    words = [plain(event.words) for event in told.before]
    assert len(words) == 6
    assert words[-1].startswith("restart by Anna"), "the newest"
    assert words[-2].startswith("exited (code 1)")
    reports = explain(down(life(137), jobs=(job("diagnostics", 300),), lines=()))
    assert len(reports.before) == 1, "a report changes nothing"


hostile = st.text(max_size=120) | st.sampled_from(
    [HOSTILE, "`" * 900, "```", "Traceback (most recent call last):", "\n"]
)


@settings(max_examples=examples(30))
@given(lines=st.lists(hostile, max_size=60), words=hostile, name=st.sampled_from(sorted(TROUBLES)))
def test_whatever_logs_and_people_say_pings_nobody_and_breaks_nothing(lines: list[str], words: str, name: str) -> None:
    issuer = Issuer("cli:x", words)
    facts = replace(
        TROUBLES[name],
        worker_id="W" * 64,
        lines=(*lines, *TROUBLES[name].lines),
        reason=words,
        given_up=words,
        start_error=words,
        drive_problem=words,
        survivors=(words,) * 20,
        unknown=(words,) * 5,
        log=words,
        flips=(flip(TROUBLES["hung"].flips[0].new, 200, words),),
        jobs=(job("update_code", 150, issuer, words),),
    )
    for each in (facts, replace(facts, drive_problem="", given_up="", start_error="")):
        told = explain(each)
        for made in (why([told], NONCE, anything), why([told] * 40, NONCE, lambda _: False)):
            assert check_message(made, update=True) == []
            alive = re.sub(r"<!date\^[^>]*>", "", json.dumps(made))
            assert not re.search(r"<!|<@U1|<http", alive)
        assert "\x07" not in explanation_text(told, is_only=True)


def test_a_failed_command_is_one_line_without_the_workers_output() -> None:
    error = "OrionMX exited (code 1) within 2 s of its start. Last output:\nTraceback\nRuntimeError: gone"
    failed = job("restart_watcher", 150, outcome=Outcome.failed(error))
    told = explanation_text(explain(replace(TROUBLES["died"], jobs=(failed,))), is_only=True)
    assert "restart by Anna failed: OrionMX exited (code 1) within 2 s of its start. (" in flatten(told)
    assert "\\n" not in told


def test_two_hundred_in_trouble_are_one_message() -> None:
    told = [replace(explain(TROUBLES["deploy_given_up"]), worker_id=f"{'W' * 60}{number}") for number in range(200)]
    made = why(told, NONCE, anything)
    assert check_message(made, update=True) == []
    assert "200 of 200 workers need attention" in made["text"]
    assert WorkerState.STOPPED in {each.seen.state for each in TROUBLES.values()}
