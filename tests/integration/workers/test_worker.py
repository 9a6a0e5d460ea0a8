"""A configured worker: what an earlier life left behind, and what is said of one that dies at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.output.files import output_path
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.worker import check_watcher_process, start_watcher, stop_watcher_gracefully
from tests.support.processes.fake_processes import FakeProcesses
from tests.support.processes.worker_outputs import without_start_lines

TEXT = """
nas: {{root: nas, layout: cornerstone}}
workers:
  OrionMX: {{command: {command}, start_grace_seconds: {grace}, stop_timeout_seconds: 1}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "nas").mkdir()
    (tmp_path / "var").mkdir(mode=0o700)
    yield tmp_path
    assert HostProcesses(tmp_path / "var").stop("OrionMX", timeout=0.1).stopped


def configured(home: Path, command: str, grace: float = 0.1) -> SupervisorConfig:
    (home / "config.yaml").write_text(TEXT.format(command=command, grace=grace))
    return load_supervisor_config(home / "config.yaml", environ={"PATH": "/usr/bin:/bin"})


def test_one_that_dies_at_once_is_a_failure_with_its_last_words(home: Path) -> None:
    config = configured(home, '[sh, -c, "echo before; echo no such table >&2; exit 3"]', grace=5)
    worker = config.worker("OrionMX")
    log = output_path(config.state_dir, worker.id)
    log.parent.mkdir(parents=True)
    log.write_text("from an earlier life\n")
    with pytest.raises(LaunchError) as caught:
        start_watcher(open_doors(config), worker)
    assert "exited (code 3)" in str(caught.value)
    assert "no such table" in str(caught.value)
    assert "earlier life" not in str(caught.value)


def test_what_an_earlier_life_left_behind_is_ended_before_a_start(home: Path) -> None:
    config = configured(home, "[sleep, '100']")
    worker, fake = config.worker("OrionMX"), FakeProcesses()
    host = replace(open_doors(config), processes=fake)
    start_watcher(host, worker)
    helper = fake.help_with("OrionMX")
    fake.die("OrionMX")
    assert check_watcher_process(fake, worker).leftovers == (helper,)
    start_watcher(host, worker)
    assert fake.lives[helper.identity].ended
    assert len(fake.started) == 2


def test_a_worker_gets_no_environment_but_its_own_and_the_harmless(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    config = configured(home, "[sh, -c, 'env; exec sleep 100']")
    worker, processes = config.worker("OrionMX"), HostProcesses(config.state_dir)
    start_watcher(open_doors(config), worker)
    environ = without_start_lines(output_path(config.state_dir, worker.id).read_text())
    names = {line.partition("=")[0] for line in environ.splitlines()}
    assert names <= {"PATH", "PWD", "SHLVL", "OLDPWD", "_", "SUPERVISOR_GENERATION"}
    assert stop_watcher_gracefully(processes, worker).stopped
