"""The rules by which a flag's content is followed or rejected: its name, signature, id, rights and approvals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from supervisor_core.code.change_plan import count
from supervisor_core.commands.catalog import HANDLERS, by_handler
from supervisor_core.commands.command import person_of
from supervisor_core.commands.definitions import Right
from supervisor_core.commands.flags import (
    FlagCommand,
    FlagRejected,
    Trust,
    find_misspelled,
    parse_body,
    parse_name,
    suggest_name,
)
from supervisor_core.config.load import SupervisorConfig, denial_reason
from supervisor_core.jobs.model import is_reserved

DOOR = "flag"


class FlagRules:
    def __init__(
        self,
        config: SupervisorConfig,
        workers: tuple[str, ...],
        trust: Trust | None,
        now: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._workers = workers
        self._trust = trust
        self._now = now

    def understand(self, name: str, token: str, data: bytes) -> FlagCommand:
        """The command in a flag; `FlagIncomplete` if the file may still be being written, else `FlagRejected`."""
        flag = parse_name(name)
        if flag is None:
            known, meant = ", ".join(HANDLERS), suggest_name(name, self._workers)
            raise FlagRejected(
                f"The file name must be supervisor_HANDLER_WORKER.flag or supervisor_HANDLER_WORKER_TASKID.flag. "
                f"Handlers: {known}. A task id is 1 to 128 letters, digits, hyphens or underscores.",
                remedy=f"Did you mean {meant}?" if meant else "",
            )
        if right := find_misspelled(name, self._workers):
            raise FlagRejected(
                f"There's no worker {flag.worker_id}, but {right}. Flags need the exact name.",
                remedy=f"Rename the file to supervisor_{flag.handler}_{right}.flag.",
            )
        order = parse_body(data, flag, token, self._now(), self._trust)
        if is_reserved(order.task_id):
            raise FlagRejected(
                f"Command ids such as {order.task_id} are reserved for commands from Slack and from schedules.",
                remedy="Use another id, or none.",
            )
        definition = by_handler(order.handler)
        if definition is not None:
            self._check_rights(order, definition.name)
        if definition is not None and self._config.needs_approval(definition.name, DOOR):
            self._check_agreed(order, definition.name)
        return order

    def _check_rights(self, order: FlagCommand, name: str) -> None:
        """Reject people without the right: the holder of the secret could name anybody."""
        named = [(order.issuer.id, Right.OPERATOR)] if order.issuer is not None else []
        named += [(str(vote["id"]), Right.APPROVER) for vote in order.approvals]
        for who, right in named:
            if why := denial_reason(self._config, who, name, order.worker_id, right):
                raise FlagRejected(why, remedy="Groups and * don't count here.")

    def _check_agreed(self, order: FlagCommand, name: str) -> None:
        """Reject a command without the approvals that it needs. In a signed flag, they are those of people."""
        terms = self._config.slack.approvals
        people = self._config.slack.access.people
        asker = "" if terms.self_approval or order.issuer is None else person_of(order.issuer.id, people)
        agreed = {person_of(str(vote.get("id")), people) for vote in order.approvals} - {asker, ""}
        if len(agreed) < terms.votes:
            raise FlagRejected(
                f"{name} needs an approval with {count(terms.votes, 'vote')}, and this flag has "
                f"{len(agreed)}. Send the command in Slack to request one."
            )
