"""Remotes that accept and never answer: they delay nobody but whoever asked them, and those only until a deadline."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from slack_playground import Playground
from supervisor_core.code import planning as previews
from supervisor_core.commands.command import Command
from tests.support.code.checkout_homes import a_code_home
from tests.support.code.code_homes import a_code_place
from tests.support.code.remotes import hangs
from tests.support.code.repositories import origin_and_checkout
from tests.support.slack.code_homes import a_code_home_in_slack
from tests.support.slack.slack_home import settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)

LATE = "didn't answer within"
ACCESS = {"operators": ["U0OPERATOR", "U0ONCALL"], "approvers": ["U0APPROVER"], "viewers": ["*"]}


def patient_for(seconds: float) -> tuple[str, ...]:
    """The program that is the command line, with so much time for a preview."""
    patience = f"from supervisor_core.code import planning as previews; previews.PREVIEW_SECONDS = {seconds}"
    return (
        sys.executable,
        "-c",
        f"import sys; {patience}; from supervisor_core.cli import main; sys.exit(main(sys.argv[1:]))",
    )


def test_all_checkouts_of_a_preview_are_asked_concurrently_under_one_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "PREVIEW_SECONDS", 1.0)
    names = [f"W{number}" for number in range(8)]
    made = {name: origin_and_checkout(tmp_path / name).checkout for name in names}
    folders = {name: checkout.folder for name, checkout in made.items()}
    place = a_code_place(tmp_path / "place", folders["W0"], workers=("OrionMX", *names), checkouts=folders)
    with hangs() as remote, place as host:
        for checkout in made.values():
            checkout.git("remote", "set-url", "origin", remote.url)
        seen = previews.preview(host.host, Command("update", workers=tuple(names)))
    assert len(remote.asked) == 8, "none waited for another"
    assert len(seen) == 8
    for each in seen:
        assert LATE in each.refused
        assert remote.url in each.refused


async def test_seven_hung_updates_delay_no_pause_no_status_and_no_next_command_and_survive_a_kill(
    tmp_path: Path, slack: Playground
) -> None:
    with hangs() as remote, a_code_home_in_slack(tmp_path, access=ACCESS) as home:
        home.clones.checkout.git("remote", "set-url", "origin", remote.url)
        daemon = await started(home, slack, patient_for(120.0))
        operator, oncall, viewer = slack.user("operator"), slack.user("oncall"), slack.user("viewer")
        for number in range(7):
            await operator.slash(f"/supervisor update OrionMX try{number}")
        await slack.eventually(lambda: len(remote.asked) == 7, "all ask the remote, none waits for another")
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait()
        await started(home, slack, patient_for(20.0))  # more than all that follows takes on a busy machine
        await slack.eventually(lambda: len(remote.asked) == 14, "each is dealt with again")
        card = await oncall.slash("/supervisor pause OrionMX")
        await viewer.slash("/supervisor status")
        await operator.slash("/supervisor why OrionMX")
        await viewer.sees("OrionMX")
        await operator.sees("OrionMX")
        await card.becomes("OrionMX paused")
        waiting = home.rows("select key from envelopes_t where state = 'received'")
        assert len(waiting) == 7, "and all that while the remote had not been given up"
        await operator.sees("Checking the remote")
        await settled(home)
        await operator.sees(LATE)
        await slack.channel("ops").shows(7, LATE, as_=operator)
        await slack.channel("ops").shows(7, remote.url, as_=operator)
        await operator.does_not_see("Checking the remote")
        assert home.rows("select * from approvals_t") == []


def test_an_update_whose_remote_hangs_delays_no_pause_of_a_worker_of_the_same_checkout(tmp_path: Path) -> None:
    with a_code_home(tmp_path, workers=("OrionMX", "Second")) as home, hangs() as remote:
        home.clones.checkout.git("remote", "set-url", "origin", remote.url)
        home.start_daemon()
        home.order("update_code", "t1")
        wait_until(remote.reached.is_set, 20, "the remote is asked")
        home.order("pause", "t2", worker="Second")
        assert home.came("pause", "t2")["success"]
        assert home.states("t1") == ["started"], "the remote has not been given up"
        assert home.running_copies("Second") == []
