"""What the quick commands do not import, and what programs in tests' strings do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.homes import ROOT, a_home

SLOW = {
    "sqlalchemy",
    "alembic",
    "git",
    "slack_sdk",
    "slack_bolt",
    "asyncio",
    "psutil",
    "logging",
    "dataclasses",
    "requests",
    "urllib3",
}


def modules_after(code: str, environ: Mapping[str, str] | None = None, folder: Path = ROOT) -> set[str]:
    """The modules that are there after this code ran in a new Python."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def imported_by(code: str, environ: Mapping[str, str] | None = None, folder: Path = ROOT) -> set[str]:
    """The top-level modules that are there after this code ran in a new Python."""
    return {name.split(".")[0] for name in modules_after(code, environ, folder)}


def test_status_asks_the_daemon_without_importing_anything_slow() -> None:
    found = imported_by("import supervisor_core.cli.status")
    assert found & (SLOW | {"hashlib", "inspect", "random", "secrets"}) == set()


def test_status_without_a_daemon_looks_without_a_database() -> None:
    found = imported_by("import supervisor_core.cli.observe")
    assert found & {"sqlalchemy", "alembic", "git", "slack_sdk", "slack_bolt"} == set()


def test_a_command_is_sent_to_the_daemon_without_importing_anything_slow() -> None:
    found = imported_by("import supervisor_core.cli.send")
    assert found & (SLOW - {"dataclasses"}) == set()


def test_a_command_is_queued_without_a_daemon_and_the_libraries_of_other_databases() -> None:
    found = imported_by("import supervisor_core.cli.submit")
    assert found & {"alembic", "git", "slack_bolt", "pymysql", "psycopg"} == set()


DAEMON = """
import os, signal
from supervisor_core.cli import main
from supervisor_core.daemon import systemd
systemd.ready = lambda: os.kill(os.getpid(), signal.SIGTERM)
assert main(["run", "--quiet"]) == 0
"""
"""A daemon that ends when it has started."""

NOT_IN_A_DAEMON = (
    "aiohttp",
    "prometheus_client",
    "alembic",
    "apprise",
    "bot",
    "git",
    "http.client",
    "mako",
    "psycopg",
    "pydantic",
    "pymysql",
    "requests",
    "slack_bolt",
    "slack_sdk",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "supervisor_core.compatibility",
    "supervisor_core.doctor",
    "urllib3",
)
"""What a daemon without Slack can do without, also on its first start. SQLAlchemy's ORM alone is 6 MB."""


def test_a_daemon_without_slack_creates_its_ledger_and_starts_without_what_it_does_not_use(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        found = modules_after(DAEMON, home.environ, home.folder)
        assert (home.state_dir / "ledger.db").exists()
    assert {name for name in NOT_IN_A_DAEMON if name in found} == set()


@pytest.mark.parametrize("name", ["supervisor_core", "bot"])
def test_a_package_costs_nothing_to_import(name: str) -> None:
    assert imported_by(f"import {name}") & SLOW == set()


def test_the_core_names_no_module_of_the_bot() -> None:
    """Not even in a string: the chat comes through the entry point group `supervisor.chat`."""
    named = re.compile(r"""\b(?:from|import) bot\b|["']bot\.[a-z_.]+["':]""")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "supervisor_core").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if named.search(line)
    ]
    assert found == []


IMPORT = re.compile(r"from ((?:supervisor_core|bot|tests)[\w.]*) import (\w+(?:, \w+)*)")


def exists(module: str, name: str) -> bool:
    """True when there is such a module with this word in it, or such a package with this module."""
    place = ROOT.joinpath(*module.split("."))
    inner, file = place / name, place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if inner.is_dir() or inner.with_suffix(".py").exists():
        return True
    return file.exists() and re.search(rf"\b{name}\b", file.read_text()) is not None


def test_programs_in_strings_import_what_exists() -> None:
    """No type checker and no tool that renames looks into them."""
    used = {
        (module, name, path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for module, names in IMPORT.findall(path.read_text())
        for name in names.split(", ")
    }
    found = {pair: exists(*pair) for pair in {(module, name) for module, name, _ in used}}
    assert [each for each in sorted(used) if not found[each[0], each[1]]] == []
