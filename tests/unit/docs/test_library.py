"""The programs on the library page run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import supervisor_core
from supervisor_core import compatibility, plugins
from tests.support.homes import ROOT

PAGE = (ROOT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
[CONFIGURATION] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
RECONCILER, AGENT, ARCHIVE = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    return tmp_path


def output_of(program: str, folder: Path) -> str:
    words = [sys.executable, "-W", "error", "-c", program]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_reconciler_of_the_page_starts_a_worker(folder: Path) -> None:
    said = output_of(RECONCILER, folder).splitlines()
    assert said[-2:] == ["fetcher: enabled=True, connected=True", "parser: enabled=False, connected=False"]
    assert said.index("worker.started for fetcher") < said.index("reconcile.completed for TestHost")
    assert "worker.started for parser" not in said


def test_the_agent_of_the_page_shows_its_team(folder: Path) -> None:
    said = output_of(AGENT, folder)
    assert "'team_name': 'archive'" in said
    assert "'total_members': 1" in said


def test_the_archives_script_of_the_page_pauses_and_resumes(folder: Path) -> None:
    try:
        assert output_of(ARCHIVE, folder) == "True\nTrue\n"
    finally:
        assert compatibility.stop_watcher_gracefully("fetcher", 5, folder / "config.yaml")


@pytest.mark.parametrize("module", [supervisor_core, compatibility, plugins])
def test_the_page_has_a_sentence_about_every_name(module: ModuleType) -> None:
    rows = re.findall(r"^\| `(\w+)[^|]*\| (.*) \|$", PAGE, re.MULTILINE)
    described = {name for name, text in rows if text.endswith(".")}
    assert {name for name in module.__all__ if callable(getattr(module, name))} - described == set()
