"""The remotes that are trouble are just the trouble that they say, to the real git."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.code.remotes import Remote, asks_for_password, hangs, hangs_half_way, no_such, refuses_push, slow
from tests.support.code.repositories import Clones, origin_and_checkout, scrubbed
from tests.support.waiting import wait_until

SECONDS = 30.0


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Clones]:
    yield origin_and_checkout(tmp_path)
    left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    assert not [name for name in left if name == "remote" or "process_request" in name]


def fetch(made: Clones, remote: Remote) -> subprocess.CompletedProcess[bytes]:
    return made.checkout.run("fetch", remote.url, "main", seconds=SECONDS)


@contextmanager
def fetching(made: Clones, remote: Remote) -> Iterator[subprocess.Popen[bytes]]:
    """A fetch that does not end by itself; the trouble has begun."""
    command = ["git", "fetch", "--quiet", remote.url, "main"]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=made.checkout.folder, env=scrubbed(), stdout=nothing, stderr=nothing) as git:
        try:
            wait_until(remote.reached.is_set, SECONDS, "the remote was asked")
            yield git
        finally:
            git.kill()


def test_the_one_that_asks_for_a_password_gets_none_from_a_git_that_may_not_ask(made: Clones) -> None:
    with asks_for_password() as remote:
        done = fetch(made, remote)
        assert done.returncode != 0
        assert b"could not read Username" in done.stderr
        assert (len(remote.asked), remote.authorizations) == (1, [])


def test_the_one_that_asks_for_a_password_keeps_what_it_is_given(made: Clones) -> None:
    with asks_for_password() as remote:
        done = made.checkout.run("fetch", remote.url.replace("//", "//me:secret@"), "main", seconds=SECONDS)
        assert done.returncode != 0
        assert remote.authorizations == ["Basic bWU6c2VjcmV0"]


def test_the_one_that_hangs_is_asked_and_never_answers(made: Clones) -> None:
    with hangs() as remote, fetching(made, remote) as git:
        assert [asked.method for asked in remote.asked] == ["GET"]
        assert git.poll() is None


def test_the_one_that_hangs_half_way_has_begun_its_answer(made: Clones) -> None:
    with hangs_half_way() as remote, fetching(made, remote) as git:
        assert git.poll() is None


def test_the_one_that_hangs_with_the_commits_has_told_what_there_is(made: Clones) -> None:
    made.comes_in({"new": "file"})
    with hangs_half_way(made.origin) as remote:
        assert made.checkout.git("ls-remote", remote.url, "refs/heads/main").split()[0] == made.origin.head
        assert not remote.reached.is_set()
        with fetching(made, remote) as git:
            assert git.poll() is None


def test_one_that_is_left_lets_its_clients_go(made: Clones) -> None:
    with hangs() as remote:
        git = subprocess.Popen(["git", "ls-remote", remote.url], env=scrubbed(), stderr=subprocess.DEVNULL)
        wait_until(remote.reached.is_set, SECONDS, "the remote was asked")
    assert git.wait(SECONDS) != 0


def test_the_slow_one_answers_rightly(made: Clones) -> None:
    new = made.comes_in({"new": "file"})
    with slow(made.origin, 0.01) as remote:
        assert fetch(made, remote).returncode == 0
        assert made.checkout.git("rev-parse", "FETCH_HEAD") == new
        assert len(remote.asked) == 3
        made.checkout.git("merge", "--quiet", "--ff-only", "FETCH_HEAD")
        own = made.checkout.commit({"own": "file"})
        made.checkout.git("push", "--quiet", remote.url, "HEAD:main")
    assert made.origin.head == own


def test_a_slow_one_that_is_left_waits_no_longer(made: Clones) -> None:
    with slow(made.origin, 3600) as remote, fetching(made, remote) as git:
        assert git.poll() is None


def test_the_one_that_refuses_gives_its_reason_and_can_be_fetched_from(made: Clones) -> None:
    before = made.origin.head
    made.checkout.commit({"own": "file"})
    with refuses_push(made.origin, "Not on a Friday.") as remote:
        assert fetch(made, remote).returncode == 0
        done = made.checkout.run("push", remote.url, "HEAD:main")
        assert done.returncode != 0
        assert b"remote: Not on a Friday." in done.stderr
        assert made.origin.head == before
    made.checkout.push()
    assert made.origin.head == made.checkout.head


def test_the_one_that_is_not_there_refuses_connections(made: Clones) -> None:
    with no_such() as remote:
        done = fetch(made, remote)
    assert done.returncode != 0
    assert b"Failed to connect" in done.stderr or b"Couldn't connect" in done.stderr
