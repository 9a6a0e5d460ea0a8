"""Fixtures for all tests, the sample that is run, and the order: tests that need the same server share it."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import sampling
from tests.support.processes import process_backends
from tests.support.storage import databases, memory_folder, shared_statements

# How quick an example is says more about the machine than about the code: speed is measured in `benchmarks/`.
for profile, most in (("test", 20), ("faults", 300)):
    settings.register_profile(
        profile, max_examples=most, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )

# Tests in a script's background ignore SIGINT, and so would what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ENGINES = ("sqlite", "postgresql", "mariadb")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every case, round and example, not a sample of them")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The same seed gives the same sample, and the same examples of every property."""
    config.addinivalue_line("markers", "sampled(cases): `make test` runs so many of its cases, `make faults` all")
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


def pytest_report_header(config: pytest.Config) -> str:
    if config.getoption("--full"):
        return "sample: none, everything in full"
    return f"sample: seed {sampling.seed()} (set {sampling.SEED_VARIABLE} for another; make faults runs all of it)"


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


@pytest.fixture(params=process_backends.BACKENDS)
def process_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the process backend in use: each of the two in turn."""
    with process_backends.swapped(request.param):
        yield request.param


LONGEST = (
    "test_two_hundred_rounds",
    "test_a_form_is_denied_and_a_rollback_approved",
    "test_a_minute_without_a_network",
    "test_however_changes_forwards_and_failures_follow",
    "test_the_tour_prints",
    "test_each_of_500_flags",
    "test_a_frozen_server_holds_nobody_up",
    "test_a_configuration_cut_off_by_kill_9",
    "test_what_people_see_of_a_day",
    "test_the_first_sentence_names_the_true_cause",
    "test_why_names_the_cause_and_offers",
    "test_pages_are_turned_approvals_decided",
    "test_a_frozen_worker_is_noticed",
)
"""What takes a quarter of a minute and more: begun first, so that no process is left with one when all else is done."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """A property is sampled by its examples."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("sampled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the sample. Tests that need the same server run in the same process, so that it is started once; the
    longest come first in the share of each process."""
    out = sampling.left_out(items, [word.rpartition("/")[2] for word in config.args if "[" in word])
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        engine = parameters.get("database_url")
        if engine in ("postgresql", "mariadb"):
            item.add_marker(pytest.mark.xdist_group(engine))
    long = [item for item in items if any(name in item.nodeid for name in LONGEST)]
    rest = [item for item in items if item not in set(long)]
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = -(-len(items) // processes)
    ordered: list[pytest.Item] = []
    for number in range(processes):
        first = long[number::processes]
        count = size - len(first)
        ordered += first + rest[:count]
        del rest[:count]
    items[:] = ordered + rest
    if "PYTEST_XDIST_WORKER" in os.environ:
        append_groups(items)


def append_groups(items: list[pytest.Item]) -> None:
    """Append each test's group to its id, where the scheduler looks for it.

    pytest-xdist 3.8 tries to, but pytest 9.2 ignores what it writes, and tests that need the same process get none.
    """
    for item in items:
        groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        if groups:
            item._id = type(item.id).parse(f"{item.nodeid}@{'_'.join(groups)}")  # noqa: SLF001 (no other way)
