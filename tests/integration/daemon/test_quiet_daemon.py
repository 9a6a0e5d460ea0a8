"""A daemon with nothing to do: few threads, and events instead of polling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.daemon.services.queue_processor import WATCHED_POLL_SECONDS
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.waiting import wait_until

MANY = 12
MOST_THREADS = 10
SOON_SECONDS = WATCHED_POLL_SECONDS / 3


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A home without a drive: all folders are below the state folder."""
    workers = {f"W{number}": SLEEPER for number in range(MANY)}
    with a_home(tmp_path_factory.mktemp("quiet") / "home", workers, make=Host, nas={}) as made:
        assert isinstance(made, Host)
        made.inbox, made.outbox = made.state_dir / "inbox", made.state_dir / "outbox"
        made.start_daemon()
        yield made


def test_a_flag_on_the_local_disk_is_followed_long_before_the_next_poll(home: Host) -> None:
    home.drop_flag("supervisor_diagnostics_W1_t1.flag", {})
    wait_until(lambda: home.result("diagnostics", "t1"), SOON_SECONDS, "its result")


def test_a_flag_whose_rest_comes_later_is_followed_soon(home: Host) -> None:
    path = home.inbox / "supervisor_diagnostics_W2_late.flag"
    path.write_text('{"label": ')
    with path.open("a") as file:
        file.write('"late"}')
    wait_until(lambda: home.result("diagnostics", "late"), SOON_SECONDS, "its result")


def test_idle_threads_end_however_many_workers_there_are(home: Host) -> None:
    home.all_run()
    tasks = Path(f"/proc/{home.daemon()}/task")
    wait_until(lambda: len(list(tasks.iterdir())) <= MOST_THREADS, 40, "the threads of its start have ended")
