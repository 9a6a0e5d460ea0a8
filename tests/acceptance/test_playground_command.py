"""`supervisor playground`: the local Slack as a subcommand, and one clear line where it isn't installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from supervisor_core.cli import main
from tests.support.homes import ROOT

PROGRAM = "from supervisor_core.cli import main; raise SystemExit(main())"
WITHOUT = f"import sys; sys.modules['slack_playground'] = None; {PROGRAM}"
"""As on a host that has the supervisor alone: importing the playground fails."""


@pytest.mark.skipif(os.name != "posix", reason="an interrupt is a signal here")
def test_it_serves_our_manifest_and_ends_with_130_when_interrupted(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-c",
        PROGRAM,
        "playground",
        "--manifest",
        str(ROOT / "manifest.yml"),
        "--strict",
        "--latency",
        "500",
    ]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert program.stdout
    try:
        lines = [program.stdout.readline().strip() for _ in range(4)]
        assert lines[0].startswith("SLACK_API_URL=http://127.0.0.1:")
        assert lines[1].startswith("SLACK_BOT_TOKEN=xoxb-")
        assert lines[2].startswith("SLACK_APP_TOKEN=xapp-")
        with urllib.request.urlopen(lines[3] + "_playground/state", timeout=10) as answer:
            state = json.load(answer)
        assert [command["command"] for command in state["app"]["commands"]] == ["/supervisor"]
        request = urllib.request.Request(f"{lines[0].partition('=')[2]}auth.test?song=1", method="POST")
        request.add_header("Authorization", f"Bearer {lines[1].partition('=')[2]}")
        begun = time.monotonic()
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert not json.load(answer)["ok"], "--strict refuses an unknown argument"
        assert time.monotonic() - begun >= 0.5, "--latency"
    finally:
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 130
        program.stdout.close()


def test_a_manifest_that_is_not_there_is_wrong_usage_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["playground", "--manifest", "nowhere.yml"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("supervisor: ")
    assert "nowhere.yml" in shown


@pytest.mark.parametrize("command", ["playground", "demo"])
def test_without_the_playground_the_command_says_what_to_install(command: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT, command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'supervisor-chatops[demo]'" in done.stderr


def test_the_bot_runs_without_the_playground(tmp_path: Path) -> None:
    code = "import sys; sys.modules['slack_playground'] = None; import bot.service, bot.doctor.table"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
