"""`supervisor import`: a worker of another tool really runs under the daemon."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.homes import START_SECONDS, Home, a_home
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


def test_the_worker_of_an_ecosystem_file_does_too(tmp_path: Path) -> None:
    folder = work(tmp_path / "work")
    ecosystem = tmp_path / "ecosystem.config.js"
    ecosystem.write_text(
        "module.exports = {apps: [{name: 'py', cwd: __dirname + '/work', script: 'work.py',"
        f" interpreter: '{sys.executable}', args: \"'a b' {{x}}\", env: {{MODE: 'slow'}},}}]}};\n"
    )
    with imported(tmp_path, str(ecosystem)) as home:
        assert said(folder).startswith("a b|{x}|slow|")
        wait_until(lambda: home.worker("py")["state"] == "running", START_SECONDS, "it runs")
