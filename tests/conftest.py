"""Fixtures for all tests, the sample that is run, and the order: tests that need the same server share it."""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import sampling
from tests.support.daemon.fleet_faults import namespaces
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

GARBAGE = 20_000
"""Objects between two rounds of the garbage collector in the tests' own process: a twentieth of its processor time."""

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
        gc.set_threshold(GARBAGE)


def pytest_report_header(config: pytest.Config) -> list[str]:
    sample = f"seed {sampling.seed()} (set {sampling.SEED_VARIABLE} for another; make faults runs all of it)"
    if config.getoption("--full"):
        sample = "none, everything in full"
    missing = namespaces.missing()
    fleet = f"relays between plain processes: {missing}" if missing else "network namespaces"
    return [f"sample: {sample}", f"hosts of the long story of a fleet: {fleet}"]


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
    "test_a_fleet_loses_nothing",
    "test_the_tour",
    "test_killed_anywhere_on_the_way_a_command",
    "test_a_form_is_denied_and_a_rollback_approved",
    "test_what_slack_acknowledged_ends_once",
    "test_seven_hung_updates",
    "test_a_second_hub_takes_over",
    "test_however_changes_forwards_and_failures_follow",
    "test_an_operators_script_keeps_working",
    "test_a_frozen_server_holds_nobody_up",
    "test_code_changes_and_their_rollbacks_are_no_trouble",
    "test_the_first_sentence_names_the_true_cause",
    "test_a_configuration_cut_off_by_kill_9",
    "test_a_host_that_cannot_take_commands",
    "test_a_frozen_hub_is_replaced",
    "test_why_names_the_cause_and_offers",
    "test_nothing_is_left_of_a_daemon_in_its_process",
    "test_a_minute_without_a_network",
    "test_what_people_see_of_a_day",
    "test_with_the_drive_away_from_the_start",
    "test_a_worker_that_is_stopped_by_a_signal_is_frozen",
    "test_a_heartbeat_that_goes_stale_is_told_of",
    "test_pages_are_turned_approvals_decided",
    "test_each_of_500_flags",
)
"""What takes ten seconds and more, the longest first: begun early, so that no process is left with one when all else is
done. Most of that is waiting, so they are spread, and others use the processors meanwhile."""

SECONDS = {"tests/acceptance/": 1.7, "tests/faults/": 1.1, "tests/integration/": 0.4, "playground/tests/page/": 1.7}

EARLY = 0.6
"""The part of a process's tests over which its longest are spread."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """A property is sampled by its examples."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("sampled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the sample. Tests that need the same server are marked as a group; the longest come early."""
    out = sampling.left_out(items, [word.rpartition("/")[2] for word in config.args if "[" in word])
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        engine = parameters.get("database_url")
        if engine in ("postgresql", "mariadb"):
            item.add_marker(pytest.mark.xdist_group(engine))
    items[:] = in_order(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    if "PYTEST_XDIST_WORKER" in os.environ:
        append_groups(items)


def in_order(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in as many shares as there are processes: each with its part of the longest, and light ones last.

    A process that is through with its share takes from the end of another. Of a file whose tests share a browser or a
    host, that would start one more.
    """
    known: dict[str, int | None] = {}
    ranks = {item: rank for item in items if (rank := rank_of(item, known)) is not None}
    longest = sorted(ranks, key=lambda item: ranks[item])
    light = deque(item for item in items if item not in ranks and not seconds(item))
    heavy = deque(item for item in items if item not in ranks and seconds(item))
    left = sum(map(seconds, heavy))
    ordered: list[pytest.Item] = []
    for number in range(processes):
        share: list[pytest.Item] = []
        wanted = left - left / (processes - number)
        while heavy and left > wanted:
            share.append(heavy.popleft())
            left -= seconds(share[-1])
        mine = longest[number::processes]
        apart = int(len(share) * EARLY) // max(len(mine), 1)
        for count, item in enumerate(mine):
            share.insert(next_file(share, count * (apart + 1)), item)
        size = (len(items) - len(ordered)) // (processes - number)
        share += [light.popleft() for _ in range(min(size - len(share), len(light)))]
        ordered += share
    return [*ordered, *heavy, *light]


def rank_of(item: pytest.Item, known: dict[str, int | None]) -> int | None:
    """The place of an item's test among the longest; `known` keeps those of its other cases."""
    test = item.nodeid.partition("[")[0]
    if test not in known:
        known[test] = next((rank for rank, name in enumerate(LONGEST) if name in test), None)
    return known[test]


def next_file(items: list[pytest.Item], place: int) -> int:
    """The place, or the first one after it that lies between two files, whose tests may share what is slow to make."""
    while 0 < place < len(items) and items[place].path == items[place - 1].path:
        place += 1
    return place


def seconds(item: pytest.Item) -> float:
    """So long a test of this kind takes on average, on an idle machine; 0 where it starts no program."""
    return next((each for folder, each in SECONDS.items() if item.nodeid.startswith(folder)), 0.0)


def append_groups(items: list[pytest.Item]) -> None:
    """Append each test's group to its id, where the scheduler looks for it.

    pytest-xdist 3.8 tries to, but pytest 9.2 ignores what it writes, and tests that need the same process get none.
    """
    for item in items:
        groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        if groups:
            item._id = type(item.id).parse(f"{item.nodeid}@{'_'.join(groups)}")  # noqa: SLF001 (no other way)
