"""Fixtures for all tests, the sample that is run, and the order."""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Generator, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import sampling
from tests.support.storage import databases, memory_folder, shared_statements

# How quick an example is says more about the machine than about the code: speed is measured in `benchmarks/`.
for profile, most in (("test", 20), ("faults", 300)):
    settings.register_profile(
        profile, max_examples=most, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )

# Tests in a script's background ignore SIGINT, and so would what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GARBAGE = 20_000
"""Objects between two rounds of the garbage collector in the tests' own process: a twentieth of its processor time."""

ENGINES = ("sqlite", "postgresql")
"""Those of the ledger."""
SHARED_ENGINES = ("sqlite", "mariadb", "postgresql")
"""Those of the user's shared database."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every case, round and example, not a sample of them")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The same seed gives the same sample, and the same examples of every property."""
    config.addinivalue_line(
        "markers", "sampled(cases, of_file): `make test` runs so many of its cases, or tests, `make faults` all"
    )
    full = config.getoption("--full")
    sampling.use(full=full)
    shared_statements.use()
    memory_folder.use()
    settings.load_profile("faults" if full else "test")
    if config.option.hypothesis_seed is None and (not full or sampling.SEED_VARIABLE in os.environ):
        config.option.hypothesis_seed = str(sampling.seed())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end, so the garbage collector needn't look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(GARBAGE)


def pytest_report_header(config: pytest.Config) -> list[str]:
    sample = f"seed {sampling.seed()} (set {sampling.SEED_VARIABLE} for another; make faults runs all of it)"
    if config.getoption("--full"):
        sample = "none, everything in full"
    return [f"sample: {sample}"]


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """What a test logged may have surrogates, which can't be sent to the process that collects the reports."""
    return sendable((yield))


def sendable(data: Any) -> Any:
    """The same data, with escapes in place of what UTF-8 doesn't know."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, list | tuple):
        return type(data)(map(sendable, data))
    if isinstance(data, dict):
        return {sendable(name): sendable(each) for name, each in data.items()}
    return data


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
    """A new, empty database on each engine of the ledger in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared.db'}"
        return
    with databases.new_database(request.getfixturevalue(request.param)) as url:
        yield url


@pytest.fixture(params=SHARED_ENGINES)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new, empty database on each engine that a shared database may have in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared.db'}"
        return
    with databases.new_database(request.getfixturevalue(request.param)) as url:
        yield url


def pytest_itemcollected(item: pytest.Item) -> None:
    """A property is sampled by its examples."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("sampled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the sample, and deal it out."""
    out = sampling.left_out(items, [word.rpartition("/")[2] for word in config.args if "::" in word])
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]
    items[:] = spread(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def spread(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """A share for each process: files with whole programs in turn, then as many unit tests as make the shares equal.

    A process that is through with its share takes from the end of another. So what is costly to start comes first, and
    in few shares: database servers in two, Chromium in another.
    """
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    unit = deque(item for item in items if "/unit/" in item.nodeid)
    heavy = groupby((item for item in items if "/unit/" not in item.nodeid), key=lambda item: item.path)
    files = sorted((list(file) for _, file in heavy), key=lambda tests: not any(needs_start(item) for item in tests))
    for number, tests in enumerate(files):
        if any(needs_start(item) == "server" for item in tests):
            shares[number % min(2, processes)] += tests
        elif any(needs_start(item) for item in tests):
            shares[2 % processes] += tests
        else:
            shares[number % processes] += tests
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        size = (len(items) - len(ordered)) // (processes - number)
        ordered += [*share, *(unit.popleft() for _ in range(min(size - len(share), len(unit))))]
    return [*ordered, *unit]


def needs_start(item: pytest.Item) -> str:
    """What a test uses that each process starts once: a database server, or a browser; empty for most."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if fixtures & {"postgresql", "mariadb", "database_url", "shared_url"}:
        return "server"
    return "browser" if "browser" in fixtures else ""
