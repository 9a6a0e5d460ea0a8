"""Commands typed straight at the shell: `supervisor pause OrionMX`, as `supervisor send 'pause OrionMX' --wait`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.cli import main
from supervisor_core.cli.send import command_text
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.targets import GrammarContext
from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until

WORKERS = {
    name: {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
    for name in ("North", "South")
}
CONTEXT = GrammarContext(("North", "South"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with a_home(tmp_path_factory.mktemp("verbs") / "home", WORKERS) as made:
        made.start_daemon()
        yield made


def test_a_verb_waits_for_the_outcome_and_is_audited_like_any_command(home: Home) -> None:
    done = home.supervisor("pause", "North", "disk", "is", "full")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok: North is paused" in done.stdout
    (row,) = [row for row in home.audit() if row["action"] == "PAUSE"]
    assert (row["target_id"], row["outcome"]) == ("North", "success")
    assert row["label"].endswith(" - disk is full")
    assert home.supervisor("resume", "North", "--json").returncode == 0
    assert home.worker("North")["paused"] is False


@pytest.mark.parametrize("words", [("resume", "south", "hotfix"), ("send", "--wait", "resume SOUTH hotfix")])
def test_all_that_follows_two_hyphens_is_the_note(home: Home, words: tuple[str, ...]) -> None:
    done = home.supervisor(*words, "--", "it's broken,", "see #4711 --wait")
    assert (done.returncode, done.stderr) == (0, "")
    row = home.audit()[-1]
    assert (row["target_id"], json.loads(row["details_json"])["params"]) == (
        "South",
        {"note": "it's broken, see #4711 --wait"},
    )
    (shown, *_) = [line for line in home.supervisor("audit").stdout.splitlines() if row["task_id"] in line]
    assert "hotfix; it's broken, see #4711 --wait (" in shown
    assert " resume " in shown
    assert "RESUME" not in shown


def test_a_note_may_be_all_that_follows_a_verb(home: Home) -> None:
    """Its first word is never read as the worker."""
    done = home.supervisor("pause", "--", "North", "is slow")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Pause which worker?" in done.stderr, done.stderr
    assert home.worker("North")["paused"] is False


def test_a_verb_need_not_wait(home: Home) -> None:
    queued = home.json("restart", "South", "--no-wait")
    assert (queued["queued"], queued["workers"]) == (True, ["South"])
    wait_until(lambda: any(row["task_id"] == queued["task_id"] for row in home.audit()))


def test_restart_with_a_worker_leaves_the_daemon_alone(home: Home) -> None:
    daemon, before = home.status()["supervisor"]["pid"], home.worker("North")["pid"]
    done = home.supervisor("restart", "North", "--keep-going")
    assert (done.returncode, "daemon" in done.stderr) == (0, False), done.stderr
    assert home.status()["supervisor"]["pid"] == daemon
    assert home.worker("North")["pid"] != before


def test_what_only_informs_is_answered_as_send_answers_it(home: Home) -> None:
    for words in (["teams"], ["schedule", "list"], ["alerts"], ["approvals"]):
        typed = home.supervisor(*words)
        sent = home.supervisor("send", " ".join(words))
        assert (typed.returncode, typed.stdout, typed.stderr) == (sent.returncode, sent.stdout, sent.stderr), words
    assert [each["worker_id"] for each in home.json("history", "North", "7d")] == ["North"]


def test_a_schedule_and_a_mute_take_the_shells_quotes(home: Home) -> None:
    added = home.json("schedule", "add", "nightly", "0 3 * * *", "restart", "North", "every", "night")
    assert (added["details"]["cron"], added["details"]["command"]) == ("0 3 * * *", "restart North every night")
    muted = home.json("mute", "South", "2h", "moving the disks")
    assert muted["workers"] == ["South"]
    assert home.supervisor("unmute", "South").returncode == 0
    assert home.supervisor("monitoring", "pause").returncode == 0
    assert home.supervisor("monitoring", "resume").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pause", "Nort"], "Did you mean: `supervisor pause North`"),
        (["pause"], "North, South"),
        (["restart"], "North, South"),
        (["pause", ""], "An argument of `supervisor pause` is empty."),
        (["stop", "North"], "Did you mean `supervisor pause North`?"),
        (["start", "North"], "Did you mean `supervisor resume North`?"),
        (["puase"], "Did you mean `supervisor pause`?"),
        (["halt"], "Did you mean `supervisor pause`?"),
        (["daemon", "halt"], "invalid choice: 'halt'"),
        (["restart", "North", "--preview"], "--preview"),
    ],
)
def test_a_mistake_is_usage_and_nothing_is_queued(home: Home, words: list[str], said: str) -> None:
    before = len(home.audit())
    done = home.supervisor(*words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert len(home.audit()) == before


def test_the_daemon_has_its_own_life_cycle(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", WORKERS) as home:
        started = home.supervisor("daemon", "start")
        assert (started.returncode, started.stdout.startswith("Started: pid ")) == (0, True), started.stderr
        assert home.supervisor("daemon", "restart").stderr == ""
        assert home.supervisor("daemon", "logs", "-n", "1").stdout.count("\n") == 1
        assert home.supervisor("daemon", "stop", "--workers").returncode == 0


def test_a_daemon_started_in_a_folder_of_others_runs_none_of_its_code(tmp_path: Path) -> None:
    hostile, marker = tmp_path / "hostile", tmp_path / "marker"
    plugin = hostile / "evil-1.0.dist-info"
    plugin.mkdir(parents=True)
    code = f"open({str(marker)!r}, 'a').write(__name__)\n"
    for name in ("yaml", "evil"):
        (hostile / f"{name}.py").write_text(code)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (plugin / "entry_points.txt").write_text(
        "[supervisor.chat]\nslack = evil:x\n[supervisor.commands]\nevil = evil:x\n"
    )
    with a_home(tmp_path / "home", WORKERS) as home:
        home.more_environ["SLACK_BOT_TOKEN"], home.more_environ["SLACK_APP_TOKEN"] = "xoxb-1", "xapp-1"
        home.more_environ["SLACK_API_URL"] = "http://127.0.0.1:9/api/"
        program = Path(sys.executable).with_name("supervisor")
        words = [str(program), "daemon", "start", "--config", "../home/config.yaml"]
        started = subprocess.run(words, cwd=hostile, env=home.environ, capture_output=True, text=True, timeout=60)
        assert "Started: pid " in started.stdout, started.stderr
        assert not marker.exists(), marker.read_text()
        pids = [home.status()["supervisor"]["pid"], home.worker("North")["pid"]]
        daemon, worker = (Path(f"/proc/{pid}/cwd").readlink() for pid in pids)
        assert (daemon, worker) == (home.state_dir, home.folder)
        assert home.supervisor("daemon", "stop", "--workers").returncode == 0


@pytest.mark.parametrize(
    ("name", "words", "meaning"),
    [
        ("pause", ["North", "disk is full"], "pause North disk is full"),
        ("pause", ["North disk is full"], "pause North disk is full"),
        ("rollback", ["North", "3", "hot fix"], "rollback North 3 hot fix"),
        ("pause", ["North", "--", "&lt;b&gt;"], "pause North -- &amp;lt;b&amp;gt;"),
        ("mute", ["North", "2h", '"a" b'], 'mute North 2h "a" b'),
        ("schedule", ["add", "look", "*/5 * * * *", "status all"], 'schedule add look "*/5 * * * *" status all'),
    ],
)
def test_arguments_mean_the_same_as_in_one_text(name: str, words: list[str], meaning: str) -> None:
    assert parse(command_text(name, words), CONTEXT) == parse(meaning, CONTEXT)


def test_help_of_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "rollback"]) == 0
    said = capsys.readouterr().out
    assert "usage: supervisor rollback [target] [N] [label…] [options]" in said
    assert "supervisor rollback 3 hotfix" in said
