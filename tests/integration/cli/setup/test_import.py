"""`supervisor import`: a worker of another tool really runs under the daemon."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.daemon.archives import WORKER, an_archive
from tests.support.homes import START_SECONDS, Home, a_home
from tests.support.programs.unprivileged import NOBODY
from tests.support.waiting import wait_until

PROGRAM = """\
import os, sys, time
with open("said.tmp", "w") as file:
    file.write("|".join([*sys.argv[1:], os.environ["MODE"], os.environ.get("HOME", "")]))
os.rename("said.tmp", "said")
time.sleep(1000)
"""


@contextmanager
def imported(folder: Path, *files: str) -> Iterator[Home]:
    """A home with these files converted, and its daemon."""
    with a_home(folder / "home", {}) as home:
        done = home.supervisor("import", *files, "--output", str(home.config), "--force")
        assert done.returncode == 0, done.stderr
        home.config.write_text(home.config.read_text() + "\nslack: {enabled: false}\n")
        home.start_daemon()
        try:
            yield home
        finally:  # its workers aren't those that the home knows
            assert home.supervisor("daemon", "stop", "--workers").returncode == 0


def work(folder: Path) -> Path:
    """A folder with a program in it."""
    folder.mkdir()
    (folder / "work.py").write_text(PROGRAM)
    return folder


def said(folder: Path) -> str:
    wait_until((folder / "said").exists, START_SECONDS, "the worker has begun")
    return (folder / "said").read_text()


def test_the_worker_of_a_unit_runs_with_its_words_folder_and_environment(tmp_path: Path) -> None:
    folder = work(tmp_path / "work")
    unit = tmp_path / "fetcher@north.service"
    unit.write_text(
        f'[Service]\nWorkingDirectory={folder}\nEnvironment=MODE=fast "WORDS=1 2"\n'
        f"ExecStart={sys.executable} work.py %i \"a b\" $WORDS '{{x}}' $$y\nRestart=always\n"
    )
    with imported(tmp_path, str(unit)) as home:
        assert said(folder).startswith("north|a b|1|2|{x}|$y|fast|")
        wait_until(lambda: home.worker("fetcher-north")["state"] == "running", START_SECONDS, "it runs")


def test_the_worker_of_pm2_does_too(tmp_path: Path) -> None:
    folder = work(tmp_path / "work")
    facts: dict[str, Any] = {
        "pm_exec_path": str(folder / "work.py"),
        "pm_cwd": str(folder),
        "exec_interpreter": sys.executable,
    }
    facts |= {"args": ["a b", "{x}"], "env": {"MODE": "slow"}}
    (tmp_path / "pm2.json").write_text(json.dumps([{"name": "py", "pm2_env": facts}]))
    with imported(tmp_path, str(tmp_path / "pm2.json")) as home:
        assert said(folder).startswith("a b|{x}|slow|")
        wait_until(lambda: home.worker("py")["state"] == "running", START_SECONDS, "it runs")


def test_a_line_break_in_a_file_name_adds_no_setting(tmp_path: Path) -> None:
    unit = tmp_path / "odd\nenvironment: production\n#.service"
    unit.write_text(f"[Service]\nExecStart={sys.executable} -V\n")
    with a_home(tmp_path / "home", {}) as home:
        done = home.supervisor("import", str(unit), "--output", str(home.folder / "new.yaml"))
        assert done.returncode == 0, done.stderr
        assert "environment" not in yaml.safe_load((home.folder / "new.yaml").read_text())


def test_an_import_of_too_many_processes_is_refused_soon(tmp_path: Path) -> None:
    programs = (f"[program:p{number}]\ncommand=/bin/true\nprocess_name=%(process_num)s\n" for number in range(300))
    old = tmp_path / "supervisord.conf"
    old.write_text("".join(f"{program}numprocs=1000\n" for program in programs))
    with a_home(tmp_path / "home", {}) as home:
        began = time.monotonic()
        done = home.supervisor("import", str(old), "--output", str(home.folder / "new.yaml"))
        assert (done.returncode, "workers" in done.stderr) == (2, True), done.stderr
        assert time.monotonic() - began < 20


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as somebody else")
def test_an_import_takes_over_no_process_of_another_user(tmp_path: Path) -> None:
    with an_archive(tmp_path) as archive:
        path = archive.state / f"watcher_heartbeat_{WORKER}.json"
        program = f"import os, time; os.setuid({NOBODY}); print('runs', flush=True); time.sleep(100)"
        words = [sys.executable, "-c", program, WORKER, "--of-somebody-else"]
        with subprocess.Popen(words, cwd="/", stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "runs\n"
                beat = {"watcher_id": WORKER, "pid": process.pid, "hostname": socket.gethostname(), "status": "running"}
                path.write_text(json.dumps({**beat, "utc": datetime.now(UTC).isoformat(), "poll_seconds": 1}))
                done = archive.supervisor("import", "config/config.dev.yaml")
                assert done.returncode == 0, done.stderr
                assert "of-somebody-else" not in archive.config.read_text()
                assert f"pid {process.pid}" not in done.stderr
            finally:
                process.kill()
                path.unlink(missing_ok=True)  # the archive ends the process of its heartbeat
