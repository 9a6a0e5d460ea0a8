"""Votes on approvals: Approve, Deny and Cancel. A repeated press counts once."""

from __future__ import annotations

from datetime import UTC, datetime

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.rules import Person, Refusal
from bot.inbound.dispatcher import Response
from bot.outbound.content import MessageComposer
from bot.outbound.messages import failure, respond, tell, whisper
from bot.outbound.modals import Modals, NoFormError
from bot.pools import quick
from bot.requests.commands import Query
from bot.requests.request import Request, VoteRequest
from bot.views.answers.alerts import pending_approvals
from bot.views.blocks import Content, Json
from bot.views.buttons import page_number
from bot.views.cards.approval import decision_form, denial_form
from bot.views.text import error_text
from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import SupervisorError
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Choice
from supervisor_core.intake.approvals.service import Approvals, NoSuchApproval, VoteRefused
from supervisor_core.storage.store import Ledger

DOOR = "slack"


class _RefusedError(NoFormError):
    """The person has no right to vote."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__()
        self.refusal = refusal


class PendingApprovals:
    """The list of pending approvals: all of them for an approver, else a person's own."""

    def __init__(self, ledger: Ledger, composer: MessageComposer, allowed: AllowedCommands) -> None:
        self._ledger = ledger
        self._composer = composer
        self._allowed = allowed

    async def answer(self, query: Query) -> Response:
        approval_id = str(query.command.params.get("approval") or "")
        return respond(query.request, await self.content(query.request, query.person, approval_id))

    async def content(self, request: Request, person: Person | None, wanted: str = "") -> Content:
        """The list with its buttons. `wanted`: the id of one approval or of its command, or nothing for all."""
        decides = self._allowed.all_approvals(person)
        pending = await quick(self._ledger.read, self._composer.pending_approvals)
        if not decides:
            pending = [each for each in pending if each.approval.requester.person.is_same_as(request.actor)]
        if wanted:
            pending = [each for each in pending if wanted in (each.approval.approval_id, each.approval.task_id)]
        return pending_approvals(pending, request.nonce, page_number(request.page), decides=decides, wanted=wanted)


class Votes:
    """Handles votes. A person whose vote doesn't count is told why in private; the message shows the votes that do."""

    def __init__(self, approvals: Approvals, access: AccessChecks, modals: Modals, pending: PendingApprovals) -> None:
        self._approvals = approvals
        self._access = access
        self._modals = modals
        self._pending = pending

    async def handle(self, vote: VoteRequest) -> Response:
        """Count a vote, or say why it doesn't count; repeated after a crash, it has the same result."""
        request, refused, person = vote.request, None, None
        try:
            approval, _ = await quick(self._approvals.find, vote.approval_id)
            person, refused = await self._access.of_vote(vote, approval)
            await quick(self._count, vote, person, refused)
        except (VoteRefused, NoSuchApproval) as error:
            by_rights = refused is not None and error.message == refused.plain
            return tell(request, f":no_entry: {refused.words if refused and by_rights else error_text(error)}")
        except SupervisorError as error:
            return failure(request, error)
        if not request.replaces:
            return Response()
        # It was pressed in a list that only its reader sees, and that no card replaces.
        content = await self._pending.content(request, person)
        return Response(messages=(whisper(request, content, replace=True),))

    async def ask_reason(self, vote: VoteRequest) -> Response:
        """Ask for the optional reason of a denial, unless the vote wouldn't count anyway."""
        try:
            approval, _ = await quick(self._approvals.find, vote.approval_id)
        except NoSuchApproval as error:
            return tell(vote.request, f":no_entry: {error_text(error)}")
        if not vote.trigger_id:
            return await self.handle(vote)
        people = self._access.rules.slack.access.people
        own = approval.requester.person.is_same_as(vote.request.actor, people) and not approval.terms.self_approval
        if own or approval.state is not ApprovalState.PENDING:
            return await self.handle(vote)  # it says why not, and writes it down
        try:
            return await self._ask(vote, approval, "Deny", denial_form(approval, vote.request))
        except _RefusedError:
            return await self.handle(vote)

    async def ask_vote(self, vote: VoteRequest) -> Response:
        """Show the approval of a button in App Home and ask for a vote, unless it's decided or not theirs."""
        try:
            approval, _ = await quick(self._approvals.find, vote.approval_id)
            if approval.state is not ApprovalState.PENDING:
                return tell(vote.request, f":information_source: This is already {approval.state}.")
            return await self._ask(vote, approval, "Approve or deny", decision_form(approval))
        except NoSuchApproval as error:
            return tell(vote.request, f":no_entry: {error_text(error)}")
        except _RefusedError as error:
            return tell(vote.request, f":no_entry: {error.refusal.words}")

    async def _ask(self, vote: VoteRequest, approval: Approval, title: str, form: Json) -> Response:
        """Open the form for a vote; `_RefusedError` for a person without the right."""

        async def compose() -> Json:
            _, refused = await self._access.of_vote(vote, approval)
            if refused is not None:
                raise _RefusedError(refused)
            return form

        if await self._modals.show_when_ready(vote.trigger_id, title, compose):
            return Response()
        return tell(vote.request, ":warning: Slack didn't open the form in time. Press the button again.")

    def _count(self, vote: VoteRequest, person: Person | None, refused: Refusal | None) -> None:
        """Runs in a thread, because the ledger may wait for another program."""
        why, on_call = refused.plain if refused else "", person.on_call if person else ()
        voter = Issuer(vote.request.actor, person.name if person else "")
        if vote.choice == "cancel":
            self._approvals.cancel(vote.approval_id, voter, vote.reason, door=DOOR, allowed=lambda _: why)
            return
        choice, now = Choice(vote.choice), datetime.now(UTC)
        self._approvals.vote(
            vote.approval_id, voter, choice, vote.reason, door=DOOR, allowed=lambda _: why, now=now, on_call=on_call
        )
