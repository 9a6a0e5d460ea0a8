"""A broken config.yaml: commands use the last good configuration, which the daemon keeps, and say so in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.configuration.last_good import LAST_GOOD_FILE, keep, load_or_last_good
from supervisor_core.daemon.control.client import ask
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until

BROKEN = {
    "a wrong value": ("workers:\n  OrionMX: 3\n", "line 2"),
    "no YAML": ("supervisor:\n  state_dir: var\nworkers: [\n", "line 4"),
    "a colon too many": ("supervisor: {state_dir: 'var'}\nnas: root: nas\n", "line 2"),
    "empty": ("", "is empty"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with a_home(tmp_path_factory.mktemp("broken") / "home") as made:
        made.start_daemon()
        wait_until((made.state_dir / LAST_GOOD_FILE).exists, 20, "the daemon keeps its configuration")
        yield made


@pytest.fixture(params=BROKEN)
def broken(home: Home, request: pytest.FixtureRequest) -> Iterator[str]:
    good = home.config.read_text()
    text, place = BROKEN[request.param]
    home.config.write_text(text)
    wait_until(lambda: ask(str(home.state_dir), {"do": "config"})["problem"], 20, "the daemon has seen it")
    yield place
    home.config.write_text(good)


@pytest.mark.sampled(2)
def test_commands_work_with_the_last_good_configuration_and_one_warning(home: Home, broken: str) -> None:
    for words in (["send", "pause OrionMX", "--wait"], ["resume", "OrionMX"], ["audit"], ["why"], ["logs", "-n", "1"]):
        done = home.supervisor(*words)
        assert done.returncode == 0, (words, done.stderr)
        if words[0] == "logs" and not done.stderr:
            continue  # it needs the state folder alone, which this file names
        (line,) = done.stderr.splitlines()
        assert broken in line, words
        assert line.endswith("Using the last good configuration."), words


def test_status_shows_the_workers(home: Home, broken: str) -> None:
    done = home.supervisor("status", "--json")
    assert [worker["id"] for worker in json.loads(done.stdout)["workers"]] == ["OrionMX"], broken
    assert len(done.stderr.splitlines()) <= 1


def test_doctor_checks_the_rest_and_fails_for_the_file(home: Home, broken: str) -> None:
    done = home.supervisor("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, checks["configuration"]["ok"], checks["ledger"]["ok"]) == (1, False, True)
    assert broken in checks["configuration"]["message"]


def test_what_starts_something_still_refuses(home: Home, broken: str) -> None:
    for words in (["daemon", "restart"], ["start"], ["config", "check"]):
        done = home.supervisor(*words)
        assert (done.returncode, broken in done.stderr) == (2, True), (words, done.stderr)


def test_stop_works_too(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        home.start_daemon()
        wait_until((home.state_dir / LAST_GOOD_FILE).exists, 20, "the daemon keeps its configuration")
        home.config.write_text("workers: [\n")
        done = home.supervisor("stop", "--workers")
        assert (done.returncode, "Using the last good" in done.stderr) == (0, True), done.stderr
        assert home.running_copies("OrionMX") == []


def test_without_a_daemon_before_it_is_the_error(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        home.config.write_text("workers:\n  OrionMX: 3\n")
        for words in (["send", "pause"], ["audit"], ["stop"], ["doctor"], ["status"]):
            done = home.supervisor(*words)
            assert (done.returncode, "line 2" in done.stderr, done.stdout) == (2, True, ""), words


def test_the_copy_of_another_file_is_not_used(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        home.state_dir.mkdir()
        keep(load_supervisor_config(home.config))
        other = home.folder / "other.yaml"
        other.write_text("workers: [\n")
        with pytest.raises(ConfigError):
            load_or_last_good(str(other))
        home.config.write_text("supervisor:\n  state_dir: 'var'  # here\nworkers: [\n")
        config, problem = load_or_last_good(str(home.config))
        assert (list(config.workers), "line 4" in problem) == (["OrionMX"], True)
        assert (home.state_dir / LAST_GOOD_FILE).stat().st_mode & 0o777 == 0o600
