"""What the quick commands do not import."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.homes import ROOT

SLOW = {
    "sqlalchemy",
    "alembic",
    "git",
    "slack_sdk",
    "slack_bolt",
    "pydantic",
    "asyncio",
    "psutil",
    "logging",
    "dataclasses",
}


def imported_by(code: str) -> set[str]:
    """The top-level modules that are there after this code ran in a new Python."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_status_asks_the_daemon_without_importing_anything_slow() -> None:
    found = imported_by("import supervisor_core.cli.edge, supervisor_core.cli.status_command")
    assert found & SLOW == set()


def test_status_without_a_daemon_looks_without_a_database() -> None:
    found = imported_by("import supervisor_core.cli.without_daemon")
    assert found & {"sqlalchemy", "alembic", "git", "slack_sdk", "slack_bolt"} == set()


def test_a_command_is_sent_without_the_libraries_of_other_databases() -> None:
    found = imported_by("import supervisor_core.cli.send_command")
    assert found & {"alembic", "git", "slack_bolt", "pymysql", "psycopg"} == set()


@pytest.mark.parametrize("name", ["supervisor_core", "bot"])
def test_a_package_costs_nothing_to_import(name: str) -> None:
    assert imported_by(f"import {name}") & SLOW == set()
