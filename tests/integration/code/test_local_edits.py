"""Edits by hand in a checkout: only a change of the same file is refused, and no edit is ever lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor_core.processes.stopping import StopReport
from tests.support.code.code_homes import CodeHost, a_code_host
from tests.support.code.repositories import Clones, Repository, origin_and_checkout

EDIT = b"edited by hand\r\nwithout a line end"
CHANGES = ["update", "update after a local commit", "rollback 1", "rollback 2", "undo"]


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    made = origin_and_checkout(tmp_path / "code")
    made.comes_in({"touched.txt": "1\n", "other.txt": "other\n", "script.sh": "#!/bin/sh\n", "gone.txt": "gone\n"})
    made.comes_in({"touched.txt": "2\n"})
    made.comes_in({"touched.txt": "3\n"})
    made.checkout.git("pull", "--quiet")
    return made


@pytest.fixture
def host(tmp_path: Path, code: Clones) -> Iterator[CodeHost]:
    with a_code_host(tmp_path / "host", code.checkout.folder) as made:
        made.start()
        yield made


def prepare(host: CodeHost, code: Clones, change: str) -> str:
    """Make this change of `touched.txt` possible; returns the command for it."""
    if change == "undo":
        host.did("rollback 1")
    elif change.startswith("update"):
        if "local commit" in change:
            code.checkout.commit({"local.txt": "local\n"})
        code.comes_in({"touched.txt": "4\n", "new.txt": "new\n"})
        return "update"
    return change


def edit(checkout: Repository) -> None:
    (checkout.folder / "other.txt").write_bytes(EDIT)


def stage(checkout: Repository) -> None:
    edit(checkout)
    checkout.git("add", "other.txt")
    (checkout.folder / "other.txt").write_bytes(b"edited again\n")


def stage_new_file(checkout: Repository) -> None:
    (checkout.folder / "own.txt").write_bytes(EDIT)
    checkout.git("add", "own.txt")


def delete(checkout: Repository) -> None:
    (checkout.folder / "gone.txt").unlink()


def change_mode(checkout: Repository) -> None:
    (checkout.folder / "script.sh").chmod(0o755)


EDITS = [edit, stage, stage_new_file, delete, change_mode]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make_edit", EDITS)
def test_an_edit_elsewhere_stays_as_it_is(
    host: CodeHost, code: Clones, change: str, make_edit: Callable[[Repository], None]
) -> None:
    command = prepare(host, code, change)
    head = code.checkout.head
    make_edit(code.checkout)
    status, staged = code.checkout.status(), code.checkout.git("diff", "--cached")
    contents = {path.name: path.read_bytes() for path in code.checkout.folder.glob("o*.txt")}
    assert host.preview(command).ok
    host.did(command)
    assert code.checkout.head != head
    assert (code.checkout.status(), code.checkout.git("diff", "--cached")) == (status, staged)
    assert {path.name: path.read_bytes() for path in code.checkout.folder.glob("o*.txt")} == contents
    assert len(host.pids) == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_an_edit_of_a_file_that_the_change_touches_is_refused(
    host: CodeHost, code: Clones, change: str, staged: bool
) -> None:
    command = prepare(host, code, change)
    head, pids = code.checkout.head, host.pids
    edit(code.checkout)
    (code.checkout.folder / "touched.txt").write_bytes(EDIT)
    if staged:
        code.checkout.git("add", "touched.txt")
    status = code.checkout.status()
    done = host.do(command)
    assert "touched.txt" in done.error
    assert "other.txt" not in done.error
    assert (code.checkout.head, host.pids, code.checkout.status()) == (head, pids, status)
    assert (code.checkout.folder / "touched.txt").read_bytes() == EDIT
    assert (code.checkout.folder / "other.txt").read_bytes() == EDIT


def test_a_file_that_the_change_adds_is_not_overwritten(host: CodeHost, code: Clones) -> None:
    command = prepare(host, code, "update")
    head, path = code.checkout.head, code.checkout.folder / "new.txt"
    path.write_bytes(EDIT)
    assert "new.txt" in host.do(command).error
    code.checkout.git("add", "new.txt")
    assert "new.txt" in host.do(command).error
    assert (code.checkout.head, path.read_bytes()) == (head, EDIT)


@pytest.mark.parametrize("change", CHANGES)
def test_edits_while_the_workers_stop(
    host: CodeHost, code: Clones, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    command = prepare(host, code, change)
    head, stop = code.checkout.head, host.processes.stop

    def stop_and_edit(worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = "") -> StopReport:
        report = stop(worker_id, stop_signal=stop_signal, timeout=timeout, why=why)
        (code.checkout.folder / edited).write_bytes(EDIT)
        return report

    monkeypatch.setattr(host.processes, "stop", stop_and_edit)
    edited = "touched.txt"
    assert "touched.txt" in host.do(command).error
    assert (code.checkout.head, (code.checkout.folder / edited).read_bytes()) == (head, EDIT)
    code.checkout.git("checkout", "--", "touched.txt")
    edited = "other.txt"
    host.did(command)
    assert code.checkout.head != head
    assert (code.checkout.folder / "other.txt").read_bytes() == EDIT


@pytest.mark.parametrize("own_commit", [False, True])
def test_a_change_that_fails_half_way_leaves_edits_elsewhere(tmp_path: Path, code: Clones, own_commit: bool) -> None:
    """Git writes some of the files, then a filter fails for the last one."""
    code.checkout.git("config", "filter.broken.smudge", "false")
    code.checkout.git("config", "filter.broken.required", "true")
    if own_commit:
        code.checkout.commit({"local.txt": "local\n"})
    code.comes_in({".gitattributes": "*.broken filter=broken\n", "a.txt": "a\n", "touched.txt": "4\n", "z.broken": "z"})
    stage(code.checkout)
    delete(code.checkout)
    head, status, files = code.checkout.head, code.checkout.status(), code.checkout.on_disk()
    with a_code_host(tmp_path / "host", code.checkout.folder) as host:
        host.start()
        assert "z.broken" in host.do("update").error
        assert (code.checkout.head, code.checkout.status(), code.checkout.on_disk()) == (head, status, files)
        assert code.checkout.git("show", ":other.txt").encode() == EDIT.rstrip()
        assert len(host.pids) == 1


def test_an_update_without_news_starts_a_worker_that_should_run(host: CodeHost, code: Clones) -> None:
    host.processes.stop("OrionMX")
    edit(code.checkout)
    done = host.did("update")
    assert done.details["up_to_date"] is True
    assert host.pids == [done.details["workers"]["OrionMX"]["new_pid"]]
    host.processes.stop("OrionMX")
    host.pause("OrionMX")
    assert host.did("update").details["up_to_date"] is True
    assert host.pids == []
