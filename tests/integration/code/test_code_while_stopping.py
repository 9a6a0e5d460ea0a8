"""What happens to a checkout while its workers come to their end is seen before it is changed, and is not lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.processes.stopping import StopReport
from tests.support.code.code_homes import CodeHost, a_code_host
from tests.support.code.repositories import Clones, origin_and_checkout

STATE = "state.json"


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    """The newest commit takes a file away that the ones before it have."""
    made = origin_and_checkout(tmp_path / "code")
    made.comes_in({STATE: "of the repository\n"})
    made.comes_in({STATE: None})
    made.checkout.git("pull", "--quiet")
    return made


@pytest.fixture
def place(tmp_path: Path, code: Clones) -> Iterator[CodeHost]:
    with a_code_host(tmp_path / "host", code.checkout.folder) as made:
        made.start()
        yield made


def at_its_end(place: CodeHost, monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Have this happen while the worker is stopped."""
    stop = place.processes.stop

    def stopped(worker_id: str, *, stop_signal: str = "TERM", timeout: float = 30.0, why: str = "") -> StopReport:
        report = stop(worker_id, stop_signal=stop_signal, timeout=timeout, why=why)
        what()
        return report

    monkeypatch.setattr(place.processes, "stop", stopped)


@pytest.mark.parametrize("words", ["rollback 1", "rollback 2"])
def test_what_a_worker_writes_at_its_end_is_in_nobody_s_way_and_stays(
    place: CodeHost, code: Clones, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    head, file = code.checkout.head, code.checkout.folder / STATE
    at_its_end(place, monkeypatch, lambda: file.write_text("of the worker\n"))
    done = place.do(words)
    assert not done.outcome.success
    assert STATE in done.error
    assert (code.checkout.head, file.read_text()) == (head, "of the worker\n")
    assert len(place.pids) == 1, "it runs again"


def test_what_somebody_commits_meanwhile_is_not_undone_with_the_rest(
    place: CodeHost, code: Clones, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.did("rollback 1")
    at_its_end(place, monkeypatch, lambda: code.checkout.commit({"by_hand.txt": "by hand\n"}))
    done = place.do("undo")
    assert not done.outcome.success
    assert "got a new commit" in done.error
    assert code.checkout.files()["by_hand.txt"].content == b"by hand\n"
    assert len(place.pids) == 1


def test_where_one_of_two_can_not_be_stopped_the_other_runs_again(
    tmp_path: Path, code: Clones, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = code.checkout.folder
    with a_code_host(tmp_path / "host", {"A": path, "B": path}) as place:
        place.start()
        head = code.checkout.head
        stop = place.processes.stop

        def stopped(worker_id: str, **how: Any) -> StopReport:
            if worker_id == "B":
                place.processes.hide("B")
            return stop(worker_id, **how)

        monkeypatch.setattr(place.processes, "stop", stopped)
        done = place.do("rollback A 1")
        assert not done.outcome.success
        assert "B couldn't be stopped" in done.error
        assert "A is running (pid" in done.error
        assert code.checkout.head == head
        assert place.processes.find("A").identity is not None
