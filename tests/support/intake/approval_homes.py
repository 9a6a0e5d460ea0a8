"""A home where a command needs an approval, and people in Slack who ask and vote without a Slack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisor_core.cli.host import approvals_of
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import observer
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Choice
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.workers.context import open_doors
from tests.support.homes import Home, a_home
from tests.support.intake.approvals import ANNA, BOB
from tests.support.intake.fake_rights import FakeRights


class ApprovalHome(Home):
    """Nobody runs here but what the test starts."""

    def ask(self, words: str = "restart hotfix") -> Approval:
        """Somebody in Slack asks."""
        config = load_supervisor_config(self.config)
        with opened_ledger(config) as ledger:
            gateway = Gateway(config, ledger, approvals_of(config, ledger))
            approval = gateway.submit(gateway.parse(words), ANNA, "slack").approval
        assert approval is not None
        return approval

    def vote(self, approval_id: str, choice: Choice = Choice.APPROVE) -> ApprovalState:
        """An approver in Slack votes, and what was agreed to is carried out."""
        config = load_supervisor_config(self.config)
        with opened_ledger(config) as ledger:
            host = replace(open_doors(config), ledger=ledger)
            approvals = Approvals(ledger, lambda: config, observer(lambda: host), FakeRights())
            approvals.vote(approval_id, BOB, choice, "as agreed")
            approvals.carry_on()
            return approvals.find(approval_id)[0].state

    def waiting(self) -> list[dict[str, Any]]:
        """What the shell lists."""
        found: list[dict[str, Any]] = self.json("approvals")
        return found

    def state(self, approval_id: str) -> ApprovalState:
        """How an approval stands."""
        config = load_supervisor_config(self.config)
        with opened_ledger(config) as ledger:
            return approvals_of(config, ledger).find(approval_id)[0].state

    def jobs(self, task_id: str) -> int:
        """How many jobs it has."""
        config = load_supervisor_config(self.config)
        with opened_ledger(config) as ledger:
            return len(ledger.read(lambda connection: jobs.of_task(connection, task_id)))


@contextmanager
def an_approval_home(folder: Path, **terms: Any) -> Iterator[ApprovalHome]:
    """A home where a restart that was not asked for by a flag needs an approval."""
    approvals = {"required_for": ["restart"], "doors": ["slack", "cli"], **terms}
    slack = {"enabled": False, "access": {"operators": ["U0ANNA"], "approvers": ["S0ADMINS"]}, "approvals": approvals}
    with a_home(folder, make=ApprovalHome, slack=slack) as home:
        assert isinstance(home, ApprovalHome)
        yield home
