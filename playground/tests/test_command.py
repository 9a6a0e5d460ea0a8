"""`slack-playground`: prints what points a bot at it, one to a line, and serves until it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from playground.tests.support import page_app
from slack_playground.command import main


@pytest.mark.skipif(os.name != "posix", reason="an interrupt is a signal here")
def test_it_prints_its_addresses_serves_and_ends_with_130_when_interrupted(tmp_path: Path):
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(page_app.MANIFEST))
    code = "from slack_playground.command import main; raise SystemExit(main())"
    words = [sys.executable, "-c", code, "--manifest", str(manifest)]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert program.stdout
    try:
        lines = [program.stdout.readline().strip() for _ in range(4)]
        assert lines[0].startswith("SLACK_API_URL=http://127.0.0.1:")
        assert lines[1].startswith("SLACK_BOT_TOKEN=xoxb-")
        assert lines[2].startswith("SLACK_APP_TOKEN=xapp-")
        with urllib.request.urlopen(lines[3] + "_playground/state", timeout=10) as answer:
            state = json.load(answer)
        assert "/deploy" in [command["command"] for command in state["app"]["commands"]]
    finally:
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 130
        program.stdout.close()


def test_a_manifest_that_is_not_there_is_wrong_usage_in_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["--manifest", "nowhere.yml"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("slack-playground: ")
    assert "nowhere.yml" in shown


@pytest.mark.parametrize("latency", ["soon", "-1", "nan", "60000"])
def test_a_latency_that_is_no_number_is_wrong_usage(capsys: pytest.CaptureFixture[str], latency: str):
    with pytest.raises(SystemExit) as ended:
        main(["--latency", latency])
    assert ended.value.code == 2
    assert "--latency" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="an interrupt is a signal here")
def test_it_warns_on_stderr(tmp_path: Path):
    code = "from slack_playground.command import main; raise SystemExit(main())"
    words = [sys.executable, "-c", code]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert program.stdout
    assert program.stderr
    try:
        lines = dict(program.stdout.readline().strip().split("=") for _ in range(3))
        request = urllib.request.Request(f"{lines['SLACK_API_URL']}auth.test?song=1", method="POST")
        request.add_header("Authorization", f"Bearer {lines['SLACK_BOT_TOKEN']}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.load(answer)["ok"]
        assert program.stderr.readline() == "warning: auth.test has no argument 'song'. Slack ignores it.\n"
    finally:
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 130
        program.stdout.close()
        program.stderr.close()
