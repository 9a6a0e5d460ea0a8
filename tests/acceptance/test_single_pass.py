"""The single pass, as a task scheduler runs it: its flags, its exit codes, and what it does beside others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        made.inbox.mkdir()
        yield made


def once(home: Home, *words: str) -> int:
    return home.supervisor("once", "--worker-id", "OrionMX", *words).returncode


def test_a_worker_that_should_run_and_does_not_is_1_and_healed_is_0(home: Home) -> None:
    assert once(home) == 1
    assert home.running_copies("OrionMX") == []
    assert once(home, "--heal") == 0
    (pid,) = home.running_copies("OrionMX")
    assert once(home) == 0
    assert home.running_copies("OrionMX") == [pid]


def test_paused_is_0_and_a_paused_worker_is_not_healed(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert once(home) == 0
    assert once(home, "--heal") == 0
    assert home.running_copies("OrionMX") == []


def test_the_module_is_the_same_program(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {"label": "module"})
    program = (sys.executable, "-m", "supervisor_core")
    done = home.supervisor("--worker-id", "OrionMX", "--config", str(home.config), program=program)
    assert done.returncode == 0, done.stderr
    assert [row["action"] for row in home.audit()] == ["PAUSE"]


def test_a_rejected_flag_is_1_with_its_reason_beside_it_and_an_outcome(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    home.drop_flag("supervisor_resume_OrionMX_t7.flag", {"label": "no/slash"})
    assert once(home) == 1
    rejected = home.inbox / "rejected" / "supervisor_resume_OrionMX_t7.flag"
    assert rejected.exists()
    assert "'/'" in rejected.with_name(f"{rejected.name}.reason.txt").read_text()
    result = home.result("resume", "t7")
    assert result is not None
    assert result["success"] is False
    assert [(row["action"], row["outcome"]) for row in home.audit()] == [("REFUSED", "failure"), ("PAUSE", "success")]


def test_a_half_written_flag_is_left_to_a_later_pass_and_is_no_failure(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert once(home) == 0
    home.drop_flag("supervisor_resume_OrionMX.flag", b'{"label": "half')
    assert once(home) == 0
    assert (home.inbox / "supervisor_resume_OrionMX.flag").exists()


def test_flags_for_other_workers_are_not_touched(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    home.drop_flag("supervisor_pause_OrionMX2.flag", {})
    assert once(home) == 0
    assert [path.name for path in home.inbox.glob("*.flag")] == ["supervisor_pause_OrionMX2.flag"]


def test_beside_a_daemon_it_does_nothing_says_who_and_is_0(home: Home) -> None:
    daemon = home.start_daemon()
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 0
    assert str(daemon.pid) in done.stdout


def test_a_drive_that_is_not_there_is_1_and_never_made(home: Home) -> None:
    home.nas.rename(home.folder / "elsewhere")
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 1
    assert "nas" in done.stderr
    assert not home.nas.exists()


def test_a_command_works_with_the_drive_away_and_its_result_follows(home: Home) -> None:
    home.start_daemon()
    away = home.folder / "elsewhere"
    home.nas.rename(away)
    outcome = home.json("send", "pause drive away", "--wait")
    assert outcome["success"], outcome
    assert home.running_copies("OrionMX") == []
    away.rename(home.nas)
    wait_until(lambda: home.result("pause", outcome["task_id"]), 30, "the result is there")
    flag = home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag"
    wait_until(flag.exists, 30, "the pause flag is there")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("workers: [", "line"), ("workrs: {}", "workers"), ("", "empty"), ("supervisor: {state_dir: 3.5}", "state_dir")],
)
def test_a_configuration_that_cannot_be_used_is_2_in_one_clear_line(home: Home, text: str, expected: str) -> None:
    home.config.write_text(text)
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_worker_id_the_only_worker_is_meant_and_of_several_none(tmp_path: Path) -> None:
    worker = {"command": demo_command()}
    with a_home(tmp_path / "home", {"North": worker, "South": worker}) as home:
        done = home.supervisor("once")
        assert (done.returncode, "North" in done.stderr) == (2, True)


def test_a_configuration_that_is_right_and_would_not_work_is_said(home: Home) -> None:
    home.nas.rename(home.folder / "elsewhere")
    text = home.config.read_text().replace("'{python}'", "nosuchprogram")
    home.config.write_text(text)
    checked = home.supervisor("config", "check")
    assert checked.returncode == 0
    assert "But: nas.root" in checked.stdout
    assert "there is no program nosuchprogram" in checked.stdout


def test_a_flag_for_what_needs_an_approval_is_rejected(tmp_path: Path) -> None:
    approvals = {"required_for": ["pause"], "doors": ["flag"]}
    with a_home(tmp_path / "home", slack={"approvals": approvals}) as home:
        home.drop_flag("supervisor_pause_OrionMX.flag", {})
        assert once(home) == 1
        reason = home.inbox / "rejected" / "supervisor_pause_OrionMX.flag.reason.txt"
        assert "needs an approval here" in reason.read_text()
        assert [row["action"] for row in home.audit()] == ["REFUSED"]
