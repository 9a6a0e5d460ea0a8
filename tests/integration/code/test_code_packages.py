"""update-deps around pip: which files go into which Python, what is told of it, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.host.locks import FileLock
from tests.support.code.code_homes import CodeHost, Done, a_code_host
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.code.small_pythons import SmallPython, a_small_python
from tests.support.waiting import wait_until

QUICK = {"pip_timeout_seconds": 1}


class Place:
    """Two workers with one checkout and one Python: one runs from `svc/a`, the other from `svc/b`."""

    def __init__(self, host: CodeHost, clones: Clones, python: SmallPython) -> None:
        self.host, self.clones, self.python = host, clones, python

    def requires(self, a: str | None, b: str | None = "", **files: str) -> str:
        named = {"svc/a/requirements.txt": a, "svc/b/requirements.txt": b}
        return self.clones.comes_in({**named, **files}, f"Require {a} and {b}")

    @contextmanager
    def while_slow(self, words: str) -> Iterator[Future[Done]]:
        """What is done while pip waits in the middle of this command; then it goes on to its end."""
        with ThreadPoolExecutor() as pool:
            doing = pool.submit(self.host.do, words)
            try:
                wait_until(lambda: self.python.reached or doing.done(), 20, "pip is at work")
                yield doing
            finally:
                self.python.go()


@contextmanager
def _place(folder: Path, **code: Any) -> Iterator[Place]:
    clones, python = origin_and_checkout(folder), a_small_python(folder / "venv")
    clones.comes_in({"svc/a/requirements.txt": "", "svc/b/requirements.txt": ""})
    clones.checkout.git("pull", "--quiet", "--ff-only")
    top = clones.checkout.folder
    codes = {name: {"path": str(top / "svc" / letter), **code} for name, letter in (("OrionMX", "a"), ("West", "b"))}
    with a_code_host(folder / "host", codes) as host:
        host.configure(OrionMX={"python": python.python}, West={"python": python.python})
        host.start()
        yield Place(host, clones, python)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with _place(tmp_path) as made:
        yield made


def test_each_file_of_a_checkout_is_installed_where_two_workers_share_a_python(place: Place) -> None:
    place.requires("alpha==1.0\n", "beta==2.0\n")
    done = place.host.did("update-deps OrionMX")
    assert place.python.packages() == {"alpha==1.0", "beta==2.0"}
    (told,) = done.details["packages"]
    assert told["changed"] == ["alpha 1.0 (added)", "beta 2.0 (added)"]


def test_a_file_that_two_workers_share_is_installed_once(place: Place) -> None:
    top = place.clones.checkout.folder
    place.host.configure(West={"code": {"path": str(top / "svc"), "requirements": "a/requirements.txt"}})
    place.requires("alpha==1.0\n")
    place.host.did("update-deps OrionMX")
    assert len(place.python.installed_in()) == 1


def test_what_one_of_the_files_lacks_puts_all_of_them_back(place: Place) -> None:
    place.python.has("alpha==0.9")
    place.requires("alpha==1.0\n", "nowhere\n")
    done = place.host.do("update-deps OrionMX")
    assert "nowhere" in done.error
    assert "All packages are restored" in done.error
    assert place.python.packages() == {"alpha==0.9"}


def test_a_way_back_that_fails_is_told_beside_its_cause_and_the_packages_go_back(place: Place) -> None:
    place.python.has("alpha==0.9")
    before, new = place.clones.checkout.head, place.requires("alpha==1.0\n", "slow\nnowhere\n")
    with place.while_slow("update-deps OrionMX") as doing:
        lock = place.clones.checkout.folder / ".git" / "index.lock"
        lock.touch()  # of another git, so that ours can't go back
    done = doing.result()
    assert "No matching distribution found for nowhere" in done.error
    assert "index.lock" in done.error
    assert "All packages are restored" in done.error
    assert place.python.packages() == {"alpha==0.9"}
    assert (done.details["before"], done.details["after"]) == (before, new)


def test_an_undo_tells_in_words_of_their_own_what_became_of_the_packages(place: Place) -> None:
    place.python.has("alpha==0.9")
    place.requires("alpha==1.0\n")
    place.host.did("update-deps OrionMX")
    done = place.host.did("undo OrionMX")
    assert place.python.packages() == {"alpha==0.9"}
    assert "All packages are restored" in done.details["packages_said"]
    assert "packages" not in done.details


def test_an_undo_waits_for_whoever_installs_into_that_python(place: Place) -> None:
    place.python.has("alpha==0.9")
    place.requires("alpha==1.0\n")
    place.host.did("update-deps OrionMX")
    place.host.configure(OrionMX={"code": {**place.host.document["workers"]["OrionMX"]["code"], **QUICK}})
    (path,) = (place.host.config.state_dir / "locks").glob("python_*.lock")
    with FileLock(path, "an installation for somebody").acquire():
        done = place.host.do("undo OrionMX")
    assert "an installation for somebody" in done.details["packages_said"]
    assert place.python.packages() == {"alpha==1.0"}, "nobody touches it meanwhile"


def test_a_preview_with_nothing_to_pull_says_what_is_installed_and_that_it_stops_them(place: Place) -> None:
    seen = place.host.preview("update-deps OrionMX")
    assert seen.ok
    assert not seen.does_nothing
    assert seen.installs == tuple(f"svc/{name}/requirements.txt into {place.python.python}" for name in "ab")
    assert place.python.installed_in() == [], "a preview does nothing"
    place.host.configure(West={"python": sys.executable})
    assert "out of date" in place.host.do("update-deps OrionMX", state=seen.state).error, "it's another installation"
    place.host.configure(West={"python": place.python.python})
    done = place.host.did("update-deps OrionMX", state=seen.state)
    assert done.details["up_to_date"]
    assert len(place.python.installed_in()) == 2


def test_a_preview_refuses_a_file_that_would_not_come(place: Place) -> None:
    place.requires("", None)
    assert "svc/b" not in place.host.preview("update OrionMX").refused
    assert "no file requirements.txt" in place.host.preview("update-deps OrionMX").refused


def test_a_preview_refuses_a_python_that_is_not_there(place: Place) -> None:
    place.host.configure(West={"python": "/nowhere/bin/python"})
    assert "/nowhere/bin/python" in place.host.preview("update-deps OrionMX").refused


def test_where_nobody_requires_anything_nobody_is_stopped(place: Place) -> None:
    for name in ("OrionMX", "West"):
        place.host.document["workers"][name]["code"]["requirements"] = ""
    place.host.configure()
    pids = place.host.pids
    seen = place.host.preview("update-deps OrionMX")
    assert seen.does_nothing
    assert place.host.did("update-deps OrionMX").details["up_to_date"]
    assert place.host.pids == pids
