"""The pytest plugin comes with the distribution, whatever the folders of the project under test are called."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

SYNC = """
def test_a_person_speaks(slack):
    slack.user("operator").says("hello")
    slack.channel("ops").shows(1, "hello")
"""
ASYNC = """
from bot.words import HELLO


async def test_a_person_speaks(slack):
    await slack.user("operator").says(HELLO)
    await slack.channel("ops").shows(1, HELLO)
"""


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m pytest` in this folder, with nothing but the installed distributions on the path."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHONPATH"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("name", ["playground", "tests"])
def test_a_project_with_a_folder_of_this_name_gets_the_fixture(tmp_path: Path, name: str):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "test_channel.py").write_text(SYNC)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_project_imports_its_own_bot_beside_the_fixture(tmp_path: Path):
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "__init__.py").write_text("")
    (tmp_path / "bot" / "words.py").write_text('HELLO = "hello"\n')
    (tmp_path / "test_bot.py").write_text(ASYNC)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_plugin_is_registered_by_its_own_distribution():
    found = distribution("slack-playground").entry_points.select(group="pytest11")
    assert [entry.value for entry in found] == ["slack_playground.pytest_plugin"]
