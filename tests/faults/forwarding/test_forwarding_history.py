"""Whatever happens to a ledger and its shared database, in whatever order: their rows end equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor_core.common import crashpoints
from supervisor_core.daemon.replication import replicator as forward_module
from tests.support.sampling import examples
from tests.support.storage.forwarded_rows import (
    assert_equal,
    beat,
    file_job,
    forward,
    go_on,
    note_audit,
    opened,
    shared,
)
from tests.support.storage.tampering import unguard

IDS = st.integers(0, 3)
OPERATIONS = st.one_of(
    st.tuples(st.just("file"), IDS),
    st.tuples(st.just("go on"), IDS),
    st.tuples(st.just("note"), IDS),
    st.tuples(st.just("beat"), st.integers(0, 20)),
    st.tuples(st.just("forward"), st.just(0)),
    st.tuples(st.just("fail before the commit"), st.integers(1, 3)),
    st.tuples(st.just("fail after the commit"), st.integers(1, 3)),
    st.tuples(st.just("open again"), st.just(0)),
)


class FailedHere(Exception):
    """What a kill would be."""


class History:
    """A ledger, a shared database, and what happens to them."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self.ledger = opened(folder)
        self._number = 0

    def do(self, what: str, number: int) -> None:
        self._number += 1
        if what == "file":
            file_job(self.ledger, f"t{number}")
        elif what == "go on":
            file_job(self.ledger, f"t{number}")
            go_on(self.ledger, f"t{number}")
        elif what == "note":
            note_audit(self.ledger, number)
        elif what == "beat":
            beat(self.ledger, f"W{number % 2}", self._number, f"s{number}")
        elif what == "open again":
            self.ledger.close()
            self.ledger = opened(self._folder)
        elif what == "forward":
            forward(self.ledger, self._url)
        else:
            self._fail(f"forward.commit:{what.split()[1]}", number)

    def _fail(self, point: str, left: int) -> None:
        before = crashpoints.reach

        def reach(name: str) -> None:
            nonlocal left
            left -= name == point
            if name == point and left == 0:
                raise FailedHere

        crashpoints.reach = reach
        try:
            forward(self.ledger, self._url)
        except FailedHere:
            pass
        finally:
            crashpoints.reach = before


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, max_size=25))
def test_however_changes_forwards_and_failures_follow_each_other_the_rows_end_equal(
    database_url: str, tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    with shared(database_url) as engine, engine.begin() as there:
        from sqlalchemy import inspect

        from supervisor_core.storage.tables import metadata

        if inspect(there).has_table("audit_log_t"):
            unguard(there)
        for table in metadata.tables.values():
            if inspect(there).has_table(table.name):
                there.execute(table.delete())
    history = History(folder / "var", database_url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_module, "BATCH_ROWS", 2)
        try:
            for what, number in operations:
                history.do(what, number)
            forward(history.ledger, database_url)
            assert_equal(history.ledger, database_url)
            assert forward(history.ledger, database_url) == 0
        finally:
            history.ledger.close()
