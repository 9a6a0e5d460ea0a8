"""Database servers for tests that stop, kill and freeze them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.storage import database_servers as servers
from tests.support.storage import databases

SERVERS = ("mariadb", "postgresql")


@pytest.fixture(scope="module", params=SERVERS)
def any_server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.KINDS[request.param]() as made:
        yield made


@pytest.fixture
def server(any_server: servers.Server) -> Iterator[servers.Server]:
    """A server that runs when the test begins, and after it, whatever the test did to it."""
    any_server.thaw()
    any_server.start()
    yield any_server
    any_server.thaw()
    any_server.start()


@pytest.fixture
def url(server: servers.Server) -> Iterator[str]:
    """A new, empty database on that server."""
    with databases.new_database(server.url) as made:
        yield made
        server.thaw()
        server.start()
