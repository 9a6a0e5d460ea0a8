"""The demo worker's code repository: a real history, made the same everywhere, whose every version runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from supervisor_core.demo.history import HISTORY, Change, versions
from supervisor_core.demo.repository import Repository, RepositoryError, git_environment, make_repository
from supervisor_core.workers.health import GOOD_WORDS
from tests.support.waiting import wait_until

NEWEST = ("HEAD", "HEAD~1", "HEAD~2")
ME = ("-c", "user.name=test", "-c", "user.email=test@example.org")


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    return make_repository(tmp_path)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *ME, *words], cwd=folder, env=git_environment(), capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_history_is_of_six_commits_by_two_authors_in_the_order_of_their_dates(made: Repository) -> None:
    lines = [line.split("|") for line in git(made.checkout, "log", "--reverse", "--format=%an|%at|%s").splitlines()]
    assert [subject for _, _, subject in lines] == [commit.message.split("\n")[0] for commit in HISTORY]
    assert {author for author, _, _ in lines} == {"Ann Archer", "Ben Brook"}
    assert [int(at) for _, at, _ in lines] == sorted(int(at) for _, at, _ in lines)
    assert len(lines) == 6


def test_the_checkout_is_clean_and_follows_main_at_its_origin(made: Repository) -> None:
    assert git(made.checkout, "status", "--porcelain=v2", "--branch").split("\n")[1:] == [
        "# branch.head main",
        "# branch.upstream origin/main",
        "# branch.ab +0 -0",
    ]
    assert git(made.origin, "rev-parse", "--is-bare-repository", "HEAD") == (
        "true\n" + git(made.checkout, "rev-parse", "HEAD")
    )
    assert {path.name for path in made.checkout.iterdir()} == {".git", *versions()[-1]}
    git(made.origin, "fsck", "--strict")


@pytest.mark.parametrize("commit", NEWEST)
def test_each_of_the_newest_three_can_be_reverted_alone(made: Repository, commit: str) -> None:
    before = git(made.checkout, "show", f"{commit}:watcher.py"), git(made.checkout, "show", f"{commit}:watcher.yaml")
    git(made.checkout, "revert", "--no-edit", commit)
    assert git(made.checkout, "status", "--porcelain") == ""
    after = git(made.checkout, "show", "HEAD:watcher.py"), git(made.checkout, "show", "HEAD:watcher.yaml")
    assert after != before


def test_the_newest_three_reverted_together_are_the_version_before_them(made: Repository) -> None:
    git(made.checkout, "revert", "--no-edit", "HEAD~3..HEAD")
    assert git(made.checkout, "diff", "HEAD", "origin/main~3") == ""


@pytest.mark.parametrize("number", range(len(HISTORY)), ids=[commit.message.split("\n")[0] for commit in HISTORY])
def test_every_version_carries_files_beats_and_stops_when_asked(tmp_path: Path, number: int) -> None:
    made = make_repository(tmp_path)
    commit = f"main~{len(HISTORY) - 1 - number}"
    git(made.checkout, "checkout", "--quiet", "--detach", commit)
    for name in ("state", "raw", "publish"):
        (tmp_path / name).mkdir()
    (tmp_path / "raw" / "a.txt").write_text("a")
    places = ["--state-dir", "../state", "--incoming", "../raw", "--outgoing", "../publish"]
    with (tmp_path / "log").open("w") as log:
        watcher = subprocess.Popen(
            [sys.executable, "watcher.py", "--worker-id", "OrionMX", *places], cwd=made.checkout, stdout=log, stderr=log
        )
    try:
        wait_until((tmp_path / "publish" / "a.txt").exists, message="the file was carried")
        heartbeat = tmp_path / "state" / "watcher_heartbeat_OrionMX.json"
        wait_until(heartbeat.exists, message="it beat")
        beat = json.loads(heartbeat.read_text())
        assert {"watcher_id", "pid", "hostname", "status", "utc", "poll_seconds"} <= set(beat)
        assert datetime.fromisoformat(beat["progress_utc"]) <= datetime.fromisoformat(beat["utc"])
        assert (beat["watcher_id"], beat["pid"]) == ("OrionMX", watcher.pid)
        assert beat["status"] in GOOD_WORDS
        assert beat["version"] == git(made.checkout, "rev-parse", "HEAD")[:7]
    finally:
        watcher.terminate()
        code = watcher.wait(20)
    closes_its_books = number >= 2
    if closes_its_books:
        assert code == 0
        assert json.loads(heartbeat.read_text())["status"] == "stopped"
        assert list((tmp_path / "state").glob("*.tmp")) == []


def test_it_is_the_same_whatever_the_user_has_configured(
    tmp_path: Path, made: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = tmp_path / "hostile"
    (hostile / "template" / "hooks").mkdir(parents=True)
    hook = hostile / "template" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {hostile / 'ran'}\n")
    hook.chmod(0o755)
    (hostile / ".gitconfig").write_text(
        f"[init]\ntemplateDir = {hostile / 'template'}\n[core]\nautocrlf = true\nhooksPath = {hook.parent}\n"
        "[clone]\ndefaultRemoteName = elsewhere\n[commit]\ngpgSign = true\n"
    )
    monkeypatch.setenv("HOME", str(hostile))
    monkeypatch.setenv("GIT_DIR", str(hostile / "nowhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "nonsense")
    (tmp_path / "again").mkdir()
    again = make_repository(tmp_path / "again")
    assert git(again.checkout, "rev-parse", "HEAD") == git(made.checkout, "rev-parse", "HEAD")
    assert git(again.checkout, "remote") == "origin"
    assert b"\r" not in (again.checkout / "watcher.py").read_bytes()
    assert not (hostile / "ran").exists()


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RepositoryError, match="git isn't on the PATH"):
        make_repository(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="a script stands in for git")
def test_what_git_said_is_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\necho the disk is on fire\nexit 3\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        RepositoryError, match=r"(?s)`git init` failed with exit code 3\. Its output:\nthe disk is on fire"
    ):
        make_repository(tmp_path)


def test_a_change_that_does_not_fit_the_program_is_an_error() -> None:
    wrong = replace(HISTORY[-1], changes=(Change("watcher.yaml", "poll_seconds: 77\n"),))
    with pytest.raises(ValueError, match=r"watcher\.yaml has"):
        versions([*HISTORY[:-1], wrong])
