"""`supervisor init`: by options without a terminal, and by typing on one."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml

from supervisor_core.cli import main
from supervisor_core.cli.init import service_unit
from supervisor_core.config.load import load_supervisor_config
from tests.support.homes import ROOT, START_SECONDS, SUPERVISOR
from tests.support.programs import warm
from tests.support.skips import skip_or_fail
from tests.support.terminals import Terminal, on_terminal
from tests.support.waiting import wait_until

SECONDS = 60.0
WORKER = ("--worker", "fetcher", "--command", "sleep 1000", "--team", "data")


def environ(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def init(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return warm.run(["init", *words], folder, environ(**more), SECONDS)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class TestWithoutATerminal:
    """By options alone."""

    def test_it_names_the_missing_options_and_waits_for_nothing(self, tmp_path: Path) -> None:
        done = init(tmp_path, "--name", "orion")
        assert done.returncode == 2
        assert "--state-dir, --worker (or --no-worker), --drive, --slack or --no-slack. Add them, or" in done.stderr
        assert content(tmp_path) == {}

    def test_defaults_and_a_worker_are_a_complete_host(self, tmp_path: Path) -> None:
        done = init(tmp_path, "--yes", *WORKER)
        assert (done.returncode, done.stderr) == (0, "")
        assert "config.yaml is valid. Supervisor " in done.stdout
        assert content(tmp_path).keys() == {"config.yaml", ".env", "supervisor-chatops.service"}
        config = load_supervisor_config(tmp_path / "config.yaml", environ={})
        worker = config.worker("fetcher")
        assert (worker.command, worker.team, worker.heartbeat_max_age_seconds) == (("sleep", "1000"), "data", 0)
        assert not config.slack.enabled
        assert (mode(tmp_path / ".env"), mode(tmp_path / "config.yaml")) == (0o600, 0o600)

    def test_each_option_is_about_the_worker_before_it(self, tmp_path: Path) -> None:
        words = ("--worker", "a", "--command", "x {b} $c", "--worker", "b", "--heartbeat", "60", "--command", "y '1 2'")
        assert init(tmp_path, "--yes", *words).returncode == 0
        config = load_supervisor_config(tmp_path / "config.yaml", environ={})
        assert config.command_for(config.worker("a")) == ("x", "{b}", "$c")
        assert config.command_for(config.worker("b")) == ("y", "1 2")
        assert [each.heartbeat_max_age_seconds for each in config.workers.values()] == [0, 60]

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (("--command", "x"), "--command must follow the --worker"),
            (("--worker", "a"), "Missing: --command, for the worker a. Add them."),
            (("--worker", "restart", "--command", "x"), "--worker 'restart' isn't a worker id"),
            (("--worker", "a", "--command", "x | y"), "--command 'x | y' has |, but no shell runs it"),
            (
                ("--worker", "a", "--command", "x", "--cwd", "gone"),
                "--cwd 'gone' isn't a folder of this host; create it",
            ),
            (("--worker", "a", "--command", "x", "--heartbeat", "soon"), "--heartbeat 'soon' must be a number"),
            (("--no-worker", "--name", "my host"), "--name 'my host' must be a name"),
            (("--no-worker", "--channel", "C0OPS"), "--channel, --operators and --tokens need --slack."),
            (("--no-worker", "--slack", "--channel", "#ops"), "--channel '#ops' must be a channel id"),
            (("--no-worker", "--slack", "--tokens", "env"), "SLACK_BOT_TOKEN and SLACK_APP_TOKEN isn't set"),
            (("--no-worker", "--config", "x"), "Run `supervisor init FOLDER`."),
            (("--worker", "a", "--command", "x ${UNSET}"), "needs the environment variable UNSET"),
        ],
    )
    def test_a_mistake_is_named_and_nothing_is_written(
        self, tmp_path: Path, words: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        monkeypatch.chdir(tmp_path)
        for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        assert main(["init", "--yes", *words]) == 2
        assert problem in capsys.readouterr().err
        assert content(tmp_path) == {}

    def test_with_slack_the_manifest_is_written_and_tokens_of_the_shell_go_to_env(self, tmp_path: Path) -> None:
        tokens = {"SLACK_BOT_TOKEN": "xoxb-1-secret", "SLACK_APP_TOKEN": "xapp-1-secret"}
        words = ("--slack", "--tokens", "env", "--channel", "C0OPS", "--operators", "U1,U2")
        done = init(tmp_path, "--yes", "--no-worker", *words, **tokens)
        assert done.returncode == 0, done.stderr
        assert "secret" not in done.stdout
        assert (tmp_path / "manifest.yml").read_bytes() == (ROOT / "manifest.yml").read_bytes()
        assert "SLACK_BOT_TOKEN=xoxb-1-secret\nSLACK_APP_TOKEN=xapp-1-secret\n" in (tmp_path / ".env").read_text()
        config = load_supervisor_config(tmp_path / "config.yaml", environ={})
        assert (config.slack.alert_channel, config.slack.access.operators) == ("C0OPS", ("U1", "U2"))

    def test_a_second_run_changes_nothing_and_completes_an_interrupted_one(self, tmp_path: Path) -> None:
        words = ("--yes", "--slack", *WORKER)
        assert init(tmp_path, *words).returncode == 0
        before = content(tmp_path)
        again = init(tmp_path, *words)
        assert again.returncode == 0
        assert "Kept .env, config.yaml, manifest.yml, supervisor-chatops.service." in again.stdout
        assert "config.yaml is kept, so the options about it have no effect." in again.stdout
        (tmp_path / "manifest.yml").unlink()
        (tmp_path / "supervisor-chatops.service").unlink()
        assert init(tmp_path).returncode == 0, "with a configuration there's nothing to ask"
        assert content(tmp_path) == before

    def test_force_replaces_all_but_the_variables(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("SLACK_BOT_TOKEN=xoxb-mine")
        (tmp_path / ".env").chmod(0o644)
        (tmp_path / "config.yaml").write_text("workers: {}\n")
        (tmp_path / "config.yaml").chmod(0o640)
        tokens = {"SLACK_BOT_TOKEN": "xoxb-other", "SLACK_APP_TOKEN": "xapp-new"}
        done = init(tmp_path, "--yes", "--force", "--slack", "--tokens", "env", *WORKER, **tokens)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / ".env").read_text().splitlines()
        assert (lines[0], lines[-1], len(lines)) == ("SLACK_BOT_TOKEN=xoxb-mine", "SLACK_APP_TOKEN=xapp-new", 2)
        assert (mode(tmp_path / ".env"), mode(tmp_path / "config.yaml")) == (0o600, 0o640)
        assert "fetcher" in (tmp_path / "config.yaml").read_text()

    def test_an_existing_configuration_with_mistakes_is_named_and_nothing_is_written(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text("worker: {}\n")
        done = init(tmp_path)
        assert done.returncode == 2
        assert "did you mean workers?" in done.stderr
        assert content(tmp_path).keys() == {"config.yaml"}


def test_its_host_starts_and_runs_the_worker(tmp_path: Path) -> None:
    words = ("--worker", "fetcher", "--command", f"{sys.executable} -c 'import time; time.sleep(1000)'")
    assert init(tmp_path, "--yes", *words).returncode == 0

    def supervisor(*words: str) -> subprocess.CompletedProcess[str]:
        return warm.run(words, tmp_path, environ(), SECONDS)

    try:
        started = supervisor("daemon", "start")
        assert started.returncode == 0, started.stdout + started.stderr
        wait_until(lambda: "running" in supervisor("status", "fetcher", "--plain").stdout, START_SECONDS, "it runs")
    finally:
        stopped = supervisor("daemon", "stop", "--workers")
    assert stopped.returncode == 0


# On a terminal


def asking(folder: Path) -> AbstractContextManager[Terminal]:
    return on_terminal([*SUPERVISOR, "init"], folder, environ(TERM="dumb"))


def test_every_question_is_asked_again_until_its_answer_is_right(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with asking(tmp_path) as terminal:
        terminal.answer("Name of this host [", "my host")
        terminal.answer(" must be a name of 1 to 64 letters", "orion")
        terminal.answer("state, on a local disk [./var]", "")
        terminal.answer("(Enter: none yet)", "restart")
        terminal.answer("it's the name of a command", "fetcher")
        terminal.answer("Command line of fetcher", "cd x && python3 fetch.py")
        terminal.answer(" has &&, but no shell runs it", "python3 fetch.py --all")
        terminal.answer("Working directory [.]", "scr")
        terminal.answer("'scr' isn't a folder of this host", "src")
        terminal.answer("(Enter for none)", "90")
        terminal.answer("Its team (Enter: none)", "data")
        terminal.answer("(Enter: no more)", "Fetcher")
        terminal.answer("Fetcher is there already.", "")
        terminal.answer("(Enter: no drive)", "")
        terminal.answer("from Slack? [Y/n]", "maybe")
        terminal.answer("Answer y or n.", "")
        terminal.answer("Bot token, xoxb-…", "xapp-1-swapped")
        terminal.wait_for("It must start with xoxb-")
        terminal.answer("Bot token, xoxb-…", "xoxb-1-secret")
        terminal.answer("App token, xapp-…", "")
        terminal.answer("Channel for alerts", "C0OPS")
        terminal.answer("People who may run commands", "U1, U2")
        assert terminal.end() == 0
    assert "secret" not in terminal.shown
    assert "swapped" not in terminal.shown
    assert max(map(len, re.sub(r": .*", ":", terminal.shown.split("Wrote")[0]).splitlines()[1:])) <= 80
    assert "1. Create the Slack app" in terminal.shown
    document = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert document == {
        "supervisor": {"id": "orion", "state_dir": "./var"},
        "workers": {
            "fetcher": {
                "command": ["python3", "fetch.py", "--all"],
                "cwd": "src",
                "heartbeat_max_age_seconds": 90,
                "team": "data",
            }
        },
        "teams": {"data": {}},
        "slack": {
            "alert_channel": "C0OPS",
            "access": {"viewers": ["*"], "operators": ["U1", "U2"], "approvers": []},
        },
    }
    variables = (tmp_path / ".env").read_text().splitlines()
    assert "SLACK_BOT_TOKEN=xoxb-1-secret" in variables
    assert "# SLACK_APP_TOKEN=xapp-…" in variables, "a line to fill in"
    assert mode(tmp_path / ".env") == 0o600


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_stopping_in_the_middle_writes_nothing(tmp_path: Path, key: str) -> None:
    with asking(tmp_path) as terminal:
        terminal.answer("Name of this host", "orion")
        terminal.wait_for("Folder for its state")
        terminal.press(key)
        assert terminal.end() == 130
    assert "Nothing was written." in terminal.shown
    assert content(tmp_path) == {}


# The unit


@pytest.mark.parametrize("user", ["", "root"])
def test_systemd_accepts_the_unit_for_any_path(tmp_path: Path, user: str) -> None:
    folder = tmp_path / "100% of $HOME"
    program = folder / "bin" / "supervisor"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = tmp_path / "supervisor-chatops.service"
    path.write_text(service_unit((str(program),), str(folder / "config.yaml"), user))
    try:
        done = subprocess.run(
            ["systemd-analyze", *([] if user else ["--user"]), "verify", str(path)],
            capture_output=True, text=True, timeout=SECONDS, env=environ(XDG_RUNTIME_DIR=str(tmp_path)),
        )  # fmt: skip
    except FileNotFoundError:
        skip_or_fail("systemd-analyze isn't installed")
    assert [line for line in done.stderr.splitlines() if "supervisor-chatops" in line] == []


def test_the_unit_in_the_docs_is_the_one_that_is_written() -> None:
    program, config = "/opt/supervisor/.venv/bin/supervisor", "/etc/supervisor-chatops/config.yaml"
    in_docs = (ROOT / "docs" / "units" / "supervisor-chatops.service").read_text()
    assert service_unit((program,), config, "watcher") == in_docs
