"""The entry for commands from every source: parse, issue, and queue or request an approval."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.code.change_plan import Commit
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.definitions import Tier
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss
from supervisor_core.commands.targets import resolve
from supervisor_core.commands.words import excerpt
from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.intake.approvals.rules import Approval
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.filing import enqueue, log_received
from supervisor_core.intake.rolling.rules import plan_batches, rolling_terms
from supervisor_core.intake.rolling.service import PREFIX, UNDO, RollingChanges
from supervisor_core.jobs import rows
from supervisor_core.jobs.model import Job, new_task_id
from supervisor_core.storage.store import Ledger


@dataclass(frozen=True, slots=True)
class Submitted:
    """A command that was handed over, with its approval."""

    command: Command
    """The command with its issuer and id."""
    approval: Approval | None = None
    """The approval that it waits for; None if it's queued."""

    @property
    def task_id(self) -> str:
        return self.command.task_id


FindCommit = Callable[[Sequence[str], str, int], tuple[Commit, int] | None]
"""Finds a commit by its hash in the checkout of these workers, with its place among so many newest ones, or 0."""


def ask_if_commit(word: str, command: Command, find: FindCommit) -> None:
    """Raise `NearMiss` for a rollback whose label is a commit of the checkout: it would revert the newest commit,
    whichever was meant. `word`: the label, if it may be a commit. It blocks."""
    most = next(each.high for each in CATALOG["rollback"].parameters if each.name == "commits_back")
    found = find(command.workers, word, most) if word else None
    if found is None:
        return
    commit, place = found
    where = {0: f"It isn't one of the {most} newest, which a rollback can revert.", 1: "It's the newest."}
    said = where.get(place, f"It's number {place} from the newest.")
    error = NearMiss(f"{excerpt(word)} is the commit {commit}. {said} A rollback takes a number.")
    if place:
        error.suggest(render(replace(command, label=None, params={**command.params, "commits_back": place})))
    raise error


def with_batches(command: Command, config: SupervisorConfig) -> Command:
    """A rolling change with its batches; any other command as it is. Those who run from one folder are one batch."""
    terms = rolling_terms(command.params)
    if terms is None:
        return command

    def place(worker_id: str) -> Hashable:
        worker = config.workers.get(worker_id)
        own = worker is not None and "/" not in worker_id and CATALOG[command.name].tier is Tier.CODE
        return config.resolve(str(worker.code.path)) if worker is not None and own else worker_id

    return replace(command, batches=plan_batches(command.workers, terms, place))


class Gateway:
    """Parses and submits commands for every source."""

    def __init__(
        self, config: SupervisorConfig, ledger: Ledger, approvals: Approvals, facts: FactSource | None = None
    ) -> None:
        """`facts`: what the conditions of a target are checked against."""
        self._config = config
        self._facts = facts
        self._ledger = ledger
        self._approvals = approvals

    def parse(self, text: str, named: str = "") -> Command:
        """The command in a text; `GrammarError` says what was expected.

        `named`: the target in it, if it's known. If that is no longer a target, it's an error, because as the beginning
        of a label it would leave the command to another worker.
        """
        context = grammar_context(self._config, self._facts)
        if named and resolve(named, context) is None:
            raise GrammarError(f"{excerpt(named)} is no longer a worker{context.here}. Nothing was done.")
        return self.completed(parse(text, context))

    def completed(self, command: Command) -> Command:
        """A command about a rolling change with the change's workers, whose operators may give it; any other as it
        is. The undo of a rolling change is an `undo` of the workers that it has changed."""
        if not command.name.startswith(PREFIX):
            return command
        changes, task_id = RollingChanges(self._ledger), str(command.params["task_id"])
        try:
            if command.name == UNDO:
                return changes.undo_command(task_id)
            status = changes.status(task_id)
        except SupervisorError as error:
            raise GrammarError(str(error)) from None
        return replace(command, workers=tuple(job.worker_id for job in status.jobs))

    def find_submission(self, task_id: str) -> tuple[Approval | None, list[Job]]:
        approval = self._approvals.of_task(task_id)
        return approval, [] if approval else self._ledger.read(partial(rows.submitted_jobs, task_id=task_id))

    def was_submitted(self, task_id: str, issuer_id: str) -> bool:
        """True if the same issuer has submitted this command before: then it isn't checked again."""
        approval, jobs = self.find_submission(task_id)
        if approval is not None:
            return approval.requester.is_same_as(issuer_id)
        return any(job.issuer.is_same_as(issuer_id) for job in jobs)

    def pressed_by(self, button: str) -> Issuer | None:
        """The person whose press of this button was handed over, if any. Each press is a command of its own, and its
        id begins with the button's."""
        asked = self._approvals.pressed(button)
        job = None if asked else self._ledger.read(partial(rows.of_button, button=button))
        return asked.requester if asked else job.issuer if job else None

    def submit(
        self,
        command: Command,
        issuer: Issuer,
        door: str,
        task_id: str | None = None,
        card: Mapping[str, Any] | None = None,
    ) -> Submitted:
        """Queue a command, or request its approval; durable when this returns.

        With the same `task_id`, a command submitted twice is one command. `card` is the place of its message; without
        it, the configuration decides where to announce the command.
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
            for job in enqueue(self._ledger, with_batches(issued, self._config), door, now, place):
                log_received(job)
            return Submitted(issued)
        return Submitted(issued, self._approvals.request(issued, door, place, now))
