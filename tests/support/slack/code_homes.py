"""A home in Slack whose workers run from a checkout: what needs an approval is asked about there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.code.checkout_homes import HISTORY, WORKER, CodeHome, code_worker
from tests.support.code.commits import History
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.homes import a_home
from tests.support.slack.slack_home import ACCESS, SlackHome


class CodeInSlack(SlackHome, CodeHome):
    """Its ledger is read from outside."""

    def actions(self, task_id: str = "") -> list[tuple[str, str]]:
        """What the trail tells of, oldest first, with its outcome; without the rows of other affected workers."""
        found = [row for row in self.trail() if not task_id or row["task_id"] == task_id]
        found = [row for row in found if row["action"] != "AFFECTED"]
        return [(row["action"], row["outcome"]) for row in found]

    def approval(self) -> dict[str, Any]:
        """The newest approval."""
        return self.rows("select * from approvals_t order by requested_at desc limit 1")[0]

    def details(self, action: str) -> dict[str, Any]:
        """What the newest row of this action tells."""
        found = [row for row in self.trail() if row["action"] == action]
        details: dict[str, Any] = json.loads(found[-1]["details_json"])
        return details


@contextmanager
def a_code_home_in_slack(
    folder: Path, workers: Sequence[str] = (WORKER,), history: History = HISTORY, **slack: Any
) -> Iterator[CodeInSlack]:
    """The operator may give commands there, the approver may agree to them."""
    clones: Clones = origin_and_checkout(folder / "code", history)
    settings = {"enabled": True, "access": ACCESS, **slack}
    made = {name: code_worker(clones.checkout.folder) for name in workers}
    with a_home(folder / "home", made, make=CodeInSlack, slack=settings) as home:
        assert isinstance(home, CodeInSlack)
        home.clones = clones
        yield home
