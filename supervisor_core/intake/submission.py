"""The one way in for commands, whichever door they came through: understood, issued, handed to a carrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.commands.targets import resolve
from supervisor_core.commands.words import excerpt
from supervisor_core.common.errors import RefusedError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.intake.approvals.rules import Approval
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.jobs.model import Job, new_task_id


class Carrier(Protocol):
    """A way to the hosts that carry commands out."""

    def carry(self, command: Command, door: str, now: datetime, card: Mapping[str, Any] | None = None) -> list[Job]:
        """Hand the command over, durably, with the place of its one message; the jobs that were not there before."""

    def carried(self, task_id: str) -> list[Job]:
        """The jobs of a command that was handed over before; none where it was not."""

    def pressed(self, button: str) -> Job | None:
        """The first job that a press of this button was handed over as; its command's id begins with the button's."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A command that was handed over, and what it waits for."""

    command: Command
    """As it was issued."""
    approval: Approval | None = None
    """The approval that comes first; None where the command is on its way to its hosts."""

    @property
    def task_id(self) -> str:
        """The command's."""
        return self.command.task_id


class Gateway:
    """What every door uses: `parse` for text, `submit` for a command that somebody stands behind."""

    def __init__(self, config: SupervisorConfig, carrier: Carrier, approvals: Approvals) -> None:
        self._config = config
        self._carrier = carrier
        self._approvals = approvals

    def parse(self, text: str, named: str = "") -> Command:
        """The command in this text; `GrammarError` with what was expected.

        `named`: the target in it, where it is known which word that is. One that is none any more is an error then, and
        never the beginning of a label: the command would be for another worker.
        """
        context = grammar_context(self._config)
        if named and resolve(named, context) is None:
            raise GrammarError(f"{excerpt(named)} is no longer a worker on this host. Nothing was done.")
        return parse(text, context)

    def find_submission(self, task_id: str) -> tuple[Approval | None, list[Job]]:
        """The approval of a command that was handed over before, or its jobs; neither where it was not."""
        approval = self._approvals.of_task(task_id)
        return approval, [] if approval else self._carrier.carried(task_id)

    def was_submitted(self, task_id: str, issuer_id: str) -> bool:
        """Whether this very command was handed over before, by the same issuer: then it is not judged anew."""
        approval, jobs = self.find_submission(task_id)
        if approval is not None:
            return approval.requester.is_same_as(issuer_id)
        return any(job.issuer.is_same_as(issuer_id) for job in jobs)

    def pressed_by(self, button: str) -> Issuer | None:
        """Whose press of this button was handed over; None where nobody's was. Each press is a command of its own, and
        its id begins with the button's."""
        asked = self._approvals.pressed(button)
        job = None if asked else self._carrier.pressed(button)
        return asked.requester if asked else job.issuer if job else None

    def submit(
        self,
        command: Command,
        issuer: Issuer,
        door: str,
        task_id: str | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> Submitted:
        """Hand the command to its carrier, or to those who must agree to it; it is durable when this returns.

        With a `task_id` of the caller's, the same command handed over twice is one command. `card` says where its one
        message belongs; a command without one is announced where the configuration says so.
        """
        definition = CATALOG[command.name]
        if definition.handler is None:
            raise RefusedError(f"{definition.name} only shows something; there's nothing to run.")
        now = datetime.now(UTC)
        issued = command.issued(issuer, task_id or new_task_id(now))
        place = card if card is not None else self._config.announcement()
        approval, jobs = self.find_submission(issued.task_id)
        # A command that was handed over without an approval is not asked about afterwards.
        handed_over = any(job.issuer.is_same_as(issuer.id) for job in jobs)
        needs_approval = self._config.needs_approval(definition.name, door) and not handed_over
        if approval is None and not needs_approval:
            self._carrier.carry(issued, door, now, place)
            return Submitted(issued)
        return Submitted(issued, self._approvals.request(issued, door, place, now))


__all__ = ["Carrier", "Gateway", "Submitted", "grammar_context"]
