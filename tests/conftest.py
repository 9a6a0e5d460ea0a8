"""Fixtures for all tests, and the rule that a test which needs a server shares it with others of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import databases

ENGINES = ("sqlite", "postgresql", "mariadb")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server, started once in this process."""
    with databases.postgresql_server() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb() -> Iterator[str]:
    """A MariaDB server, started once in this process."""
    with databases.mariadb_server() as url:
        yield url


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new, empty database on each of the three engines in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared.db'}"
        return
    with databases.new_database(request.getfixturevalue(request.param)) as url:
        yield url


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the same server run in the same process, so that it is started once."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        engine = parameters.get("database_url")
        if engine in ("postgresql", "mariadb"):
            item.add_marker(pytest.mark.xdist_group(engine))
