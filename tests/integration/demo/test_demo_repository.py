"""The demo worker's code repository: a real history, made the same everywhere, whose every version runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor_core.demo.repository import HISTORY, Repository, git_environment, make_repository
from supervisor_core.workers.health import GOOD_WORDS
from tests.support.waiting import wait_until

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


def test_the_checkout_is_clean_and_its_newest_commits_can_be_reverted_together(made: Repository) -> None:
    assert git(made.checkout, "status", "--porcelain=v2", "--branch").split("\n")[1:] == [
        "# branch.head main",
        "# branch.upstream origin/main",
        "# branch.ab +0 -0",
    ]
    git(made.origin, "fsck", "--strict")
    assert len(git(made.checkout, "log", "--format=%h").splitlines()) == len(HISTORY)
    git(made.checkout, "revert", "--no-edit", "HEAD~3..HEAD")
    assert git(made.checkout, "diff", "HEAD", "origin/main~3") == ""


def test_every_version_moves_files_beats_and_stops_when_asked(tmp_path: Path) -> None:
    made = make_repository(tmp_path)
    for name in ("state", "raw", "publish"):
        (tmp_path / name).mkdir()
    heartbeat = tmp_path / "state" / "watcher_heartbeat_OrionMX.json"
    folders = ["--state-dir", "../state", "--incoming", "../raw", "--outgoing", "../publish"]
    for back in range(len(HISTORY)):
        git(made.checkout, "checkout", "--quiet", "--detach", f"main~{back}")
        (tmp_path / "raw" / f"{back}.txt").write_text("a")
        command = [sys.executable, "watcher.py", "--worker-id", "OrionMX", *folders]
        watcher = subprocess.Popen(command, cwd=made.checkout, stdout=subprocess.DEVNULL)
        try:
            wait_until((tmp_path / "publish" / f"{back}.txt").exists, message="the file was moved")
            wait_until(lambda: heartbeat.exists() and json.loads(heartbeat.read_text())["status"] in GOOD_WORDS)
        finally:
            watcher.terminate()
            code = watcher.wait(20)
        assert (code, json.loads(heartbeat.read_text())["status"]) == (0, "stopped")


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
