"""Forwarding as the programs show it: the daemon, its status, the audit trail in the shared database."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log
from tests.support.homes import a_home
from tests.support.storage.forwarded_rows import HOST, assert_equal, forward, note_audit, opened, shared
from tests.support.storage.forwarded_rows import forwarding as a_forwarding
from tests.support.storage.tampering import unguard
from tests.support.waiting import wait_until


def are_equal(ledger: Ledger, url: str) -> bool:
    """A worker that beats changes its row on and on."""
    try:
        assert_equal(ledger, url)
    except AssertionError:
        return False
    return True


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with opened(tmp_path / "var") as made:
        yield made


def test_the_daemon_forwards_what_is_done_and_says_that_it_is_well(database_url: str, tmp_path: Path) -> None:
    with a_home(tmp_path / "home", database={"url": database_url}) as home:
        home.start_daemon()
        assert home.json("send", "pause hotfix", "--wait")["success"]
        (service,) = [each for each in home.status()["services"] if each["name"] == "forwarder"]
        assert (service["state"], service["health"]) == ("running", "healthy")
        with opened(home.state_dir) as ledger, a_forwarding(ledger, database_url) as made:
            wait_until(lambda: made.waiting() == 0, 20, "all rows are there")
            wait_until(lambda: are_equal(ledger, database_url), 20, "the newest heartbeat is there as well")
        shown = home.json("audit", "--shared")
        assert shown == home.json("audit")
        assert [row["action"] for row in shown] == ["PAUSE"]
        assert home.supervisor("stop").returncode == 0


def test_without_a_shared_database_the_forwarder_is_disabled_with_the_reason(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", workers={}) as home:
        home.start_daemon()
        (service,) = [each for each in home.status()["services"] if each["name"] == "forwarder"]
        assert (service["state"], service["reason"]) == (
            "disabled",
            "no shared database is configured (database.url)",
        )
        asked = home.supervisor("audit", "verify", "--shared")
        assert asked.returncode == 2
        assert "--shared reads the shared database, but no shared database is configured" in asked.stderr


def test_a_database_that_is_the_ledger_itself_is_not_forwarded_to(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", workers={}, database={"url": "sqlite:///var/ledger.db"}) as home:
        home.start_daemon()
        (service,) = [each for each in home.status()["services"] if each["name"] == "forwarder"]
        assert (service["state"], service["reason"]) == ("disabled", "database.url is the ledger itself")


def test_verify_looks_at_the_shared_database_as_well(database_url: str, tmp_path: Path) -> None:
    with a_home(tmp_path / "home", workers={}, database={"url": database_url}) as home:
        with opened(home.state_dir) as ledger, opened(tmp_path / "other", "OtherHost") as other:
            for number in range(3):
                note_audit(ledger, number)
                note_audit(other, number)
            forward(ledger, database_url)
            forward(other, database_url)
            note_audit(ledger, 4)
        said = home.supervisor("audit", "verify", "--shared")
        assert said.returncode == 0, said.stderr
        assert said.stdout.splitlines() == [
            "The trail is intact: 4 rows, none altered, none missing.",
            "In the shared database, the trail of 2 hosts is intact: 6 rows, none altered, none missing.",
            "1 row of this host isn't there yet.",
        ]
        with shared(database_url) as engine, engine.begin() as there:
            mine = (audit_log.c.supervisor_id == HOST) & (audit_log.c.audit_id == 2)
            unguard(there)
            there.execute(update(audit_log).where(mine).values(actor="cli:mallory"))
        found = home.supervisor("audit", "verify", "--shared", "--json")
        assert found.returncode == 1
        document = json.loads(found.stdout)
        assert (document["ok"], document["faults"]) == (False, [])
        (fault,) = document["shared"]["faults"]
        assert (fault["supervisor_id"], fault["audit_id"]) == (HOST, 2)
        assert home.supervisor("audit", "verify").returncode == 0, "the ledger itself is whole"


def test_a_chain_written_anew_in_the_shared_database_is_held_against_the_ledger(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    from supervisor_core.daemon.replication.connection import SharedDatabase
    from supervisor_core.daemon.replication.replicator import verify_shared

    note_audit(ledger, 1)
    with opened(tmp_path / "forged") as forged:
        note_audit(forged, 2)
        forward(forged, database_url)
    with SharedDatabase(database_url, 5) as database:
        (fault,) = verify_shared(database, ledger).faults
    assert (fault.audit_id, "isn't the original row" in fault.what) == (1, True)


def test_a_password_is_in_no_word_that_is_said(
    ledger: Ledger, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    if database_url.startswith("sqlite"):
        url = "sqlite:////nowhere/hunter2/shared.db"
    else:
        scheme, _, rest = database_url.partition("://")
        url = f"{scheme}://hunter2:hunter2@127.0.0.1:1/{rest.split('/')[1].split('?')[0]}"
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Exception, match=r"The shared database .* can't be used") as caught:
        forward(ledger, url)
    assert "hunter2" not in str(caught.value) + caplog.text
