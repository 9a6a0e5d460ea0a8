"""The gateway: one command however often it is handed over, with its card or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.grammar import render
from supervisor_core.common.errors import RefusedError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import observer
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage import outbox
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import open_doors
from tests.support.intake.fake_rights import FakeRights
from tests.support.processes.fake_processes import FakeProcesses

ANNA = Issuer("slack:T0/U0ANNA", "anna")
CARD = {"channel": "C0OPS"}
TEXT = """
nas: {root: nas, layout: cornerstone}
workers:
  North: {command: [sleep, "1"]}
  South: {command: [sleep, "1"]}
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "config.yaml").write_text(TEXT)
    with opened_ledger(load_supervisor_config(tmp_path / "config.yaml", environ={})) as opened:
        yield opened


@pytest.fixture
def gateway(ledger: Ledger, tmp_path: Path) -> Gateway:
    return gateway_of(ledger, tmp_path)


def cards(ledger: Ledger) -> list[outbox.PendingMessage]:
    later = datetime.now(UTC) + timedelta(days=1)
    return ledger.read(lambda connection: outbox.due_messages(connection, jobs.CARD, later))


def test_a_command_for_several_workers_is_filed_for_each_with_one_card(gateway: Gateway, ledger: Ledger) -> None:
    issued = gateway.submit(gateway.parse("pause all hotfix"), ANNA, "slack", card=CARD)
    filed = ledger.read(lambda connection: jobs.of_task(connection, issued.task_id))
    assert [(job.worker_id, job.issuer, job.door, job.label) for job in filed] == [
        (worker, ANNA, "slack", "hotfix") for worker in ("North", "South")
    ]
    (card,) = cards(ledger)
    assert (card.payload, card.version) == (CARD, 1)


def test_handed_over_twice_under_one_task_id_it_is_one_command_with_one_card(gateway: Gateway, ledger: Ledger) -> None:
    for _ in range(2):
        gateway.submit(gateway.parse("pause North"), ANNA, "slack", task_id="task_1", card=CARD)
    assert len(ledger.read(lambda connection: jobs.of_task(connection, "task_1"))) == 1
    (card,) = cards(ledger)
    assert card.version == 1


def test_what_only_informs_is_refused_and_files_nothing(gateway: Gateway, ledger: Ledger) -> None:
    with pytest.raises(RefusedError, match="only shows something"):
        gateway.submit(gateway.parse("status all"), ANNA, "slack", task_id="task_1", card=CARD)
    assert ledger.read(lambda connection: jobs.of_task(connection, "task_1")) == []
    assert cards(ledger) == []


def test_an_undo_of_several_workers_can_be_requested_again(gateway: Gateway) -> None:
    undo = Command("undo", "North,South", ("North", "South"), {"task_id": "task_1", "batch": "100%"})
    again = gateway.parse(render(undo), undo.target)
    assert (again.workers, again.params["task_id"]) == (undo.workers, "task_1")


def with_approvals(ledger: Ledger, folder: Path, terms: str = "") -> Gateway:
    """A gateway at which a pause from Slack or from a flag needs an approval."""
    needs = f"approvals: {{required_for: [pause], doors: [slack, flag]{terms}}}"
    (folder / "config.yaml").write_text(f"{TEXT}slack: {{access: {{approvers: [S0ADMINS]}}, {needs}}}\n")
    return gateway_of(ledger, folder)


def gateway_of(ledger: Ledger, folder: Path) -> Gateway:
    config = load_supervisor_config(folder / "config.yaml", environ={})
    doors = replace(open_doors(config), processes=FakeProcesses(), ledger=ledger)
    return Gateway(config, ledger, Approvals(ledger, lambda: config, observer(lambda: doors), FakeRights()))


@pytest.mark.parametrize(("door", "runs"), [("cli", True), ("slack", False), ("flag", False)])
def test_what_needs_an_approval_waits_for_it_and_says_so(ledger: Ledger, tmp_path: Path, door: str, runs: bool) -> None:
    gateway = with_approvals(ledger, tmp_path)
    submitted = gateway.submit(gateway.parse("pause North"), ANNA, door, task_id="task_1", card=CARD)
    assert (submitted.approval is None) == runs
    assert len(ledger.read(lambda connection: jobs.of_task(connection, "task_1"))) == runs
    (card,) = cards(ledger)
    assert (card.subject, card.payload) == ("task_1", CARD)
    assert gateway.was_submitted("task_1", ANNA.id)
    assert not gateway.was_submitted("task_1", "slack:T0/U0OTHER")
