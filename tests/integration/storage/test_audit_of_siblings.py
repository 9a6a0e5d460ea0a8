"""The audit trail of a worker tells of commands for others that stopped it and replaced its code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.diagnosis.history import histories
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, search
from supervisor_core.storage.audit.trail import page
from tests.support.code.code_homes import CodeHost, a_code_host
from tests.support.code.repositories import origin_and_checkout

WORKERS = ("fetcher", "mailer", "reporter")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[CodeHost]:
    clones = origin_and_checkout(tmp_path / "code")
    with a_code_host(tmp_path / "host", dict.fromkeys(WORKERS, clones.checkout.folder)) as made:
        yield made


def rows(host: CodeHost, worker: str, **more: Any) -> list[dict[str, Any]]:
    wanted = AuditFilter(targets=(worker,), **more)
    return host.ledger.read(lambda connection: search(connection, wanted))


def test_a_worker_is_found_by_the_changes_that_others_had_made_to_its_code(host: CodeHost) -> None:
    host.start("fetcher", "mailer")
    done = host.did("rollback mailer 1 slow reader")
    host.did("pause reporter")
    for worker, role in (("fetcher", "restarted"), ("reporter", "started")):
        row = rows(host, worker)[-1]
        assert (row["action"], row["target_id"], row["task_id"]) == ("AFFECTED", worker, done.task_id)
        details = json.loads(row["details_json"])
        assert (details["role"], details["cause"]) == (role, "mailer")
    named: dict[str, Any] = {"action": "ROLLBACK_CODE", "command": "rollback"}
    assert [each["action"] for each in rows(host, "fetcher", **named)] == ["AFFECTED"]
    assert [each["action"] for each in rows(host, "reporter")] == ["PAUSE", "AFFECTED"]
    assert [each["action"] for each in rows(host, "mailer")] == ["ROLLBACK_CODE"]
    assert rows(host, "fetcher", action="PAUSE") == []
    assert rows(host, "fetcher", since=datetime.now(UTC) + timedelta(hours=1)) == []
    assert host.ledger.read(chain.verify).faults == []


def test_a_page_of_the_trail_says_in_which_role(host: CodeHost) -> None:
    host.start()
    for _ in range(3):
        host.did("rollback mailer 1 slow reader")
        host.did("pause mailer")
        host.did("resume mailer")
    wanted = AuditFilter(targets=("fetcher",))
    first = host.ledger.read(lambda connection: page(connection, wanted, 2))
    assert [each.command for each in first.entries] == ["rollback", "rollback"]
    assert {each.affected for each in first.entries} == {"fetcher: stopped and restarted with mailer"}
    place = RowPosition(first.entries[-1].supervisor_id, first.entries[-1].audit_id)
    second = host.ledger.read(lambda connection: page(connection, wanted, 2, place))
    assert (len(second.entries), second.newer, second.older) == (1, True, False)
    place = RowPosition(second.entries[0].supervisor_id, second.entries[0].audit_id)
    assert host.ledger.read(lambda connection: page(connection, wanted, 2, place, newer=True)).entries == first.entries
    (all_of_it,) = host.ledger.read(lambda connection: page(connection, AuditFilter(), 20)).entries[-1:]
    assert all_of_it.affected == "fetcher, reporter: stopped and restarted with mailer"


def test_a_command_for_all_of_them_has_one_row_each_and_no_other(host: CodeHost) -> None:
    host.start()
    host.did("rollback all 1 slow reader")
    for worker in WORKERS:
        (row,) = rows(host, worker)
        assert (row["target_id"], "cause" in json.loads(row["details_json"])) == (worker, False)


def test_history_and_why_know_of_it(host: CodeHost) -> None:
    host.start()
    done = host.did("rollback mailer 1 slow reader")
    now = datetime.now(UTC)
    found = host.ledger.read(lambda connection: jobs.recent_for(connection, "fetcher", now - timedelta(days=1), 10))
    assert [(job.task_id, job.worker_id) for job in found] == [(done.task_id, "mailer")]
    (history,) = histories(host.ledger, host.config, ["fetcher"], now - timedelta(days=1), now)
    assert history.marks[0].words[0] == "rollback of mailer (shares its code) by "
