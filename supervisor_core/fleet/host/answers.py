"""Answers the hub's questions. Nothing is changed by an answer; each has the host's own limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, UsageError, describe
from supervisor_core.common.service import Blocking
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text
from supervisor_core.fleet import rows
from supervisor_core.fleet.host.refusals import RefusedMessages
from supervisor_core.fleet.questions import Question, error_answer
from supervisor_core.fleet.reports import USAGE
from supervisor_core.fleet.rows import Position
from supervisor_core.fleet.signing import QUESTION, InvalidMessage, UnfollowableMessage, Verifier, read_signed
from supervisor_core.fleet.values import dump_commit, dump_explanation, dump_log
from supervisor_core.storage.store import Ledger

if TYPE_CHECKING:
    from supervisor_core.daemon.status import LiveView
    from supervisor_core.daemon.wiring import CodeReader

MOST_CHARACTERS = 900_000
"""Of an answer: a message of NATS holds 1 MB."""

AT_ONCE = 16

LONGEST_AGO = timedelta(minutes=5)
REMEMBERED = 20_000
"""The questions of that time that are known, so that none is answered twice."""

log = logging.getLogger(__name__)


class QuestionAnswers:
    """Answers each question of the hub; any other message gets no answer."""

    def __init__(
        self,
        host: str,
        ledger: Ledger,
        blocking: Blocking,
        view: LiveView,
        code: CodeReader,
        verify: Verifier,
        snapshot: Callable[[], Awaitable[dict[str, Any]]],
        refusals: RefusedMessages,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._blocking = blocking
        self._view = view
        self._code = code
        self._verify = verify
        self._snapshot = snapshot
        self._refusals = refusals
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._answers: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            Question.ROWS: self._rows,
            Question.SNAPSHOT: lambda _: self._snapshot(),
            Question.PREVIEW: self._preview,
            Question.COMMITS: self._commits,
            Question.FIND: self._find,
            Question.LOGS: self._logs,
            Question.WHY: self._why,
            Question.USAGE: self._usage,
        }

    async def answer(self, data: bytes) -> bytes | None:
        """The answer to a question. Its errors are answers, too. Who isn't the hub gets none."""
        try:
            asked = read_signed(QUESTION, data, self._host, self._verify)
            self._check_new(asked)
        except InvalidMessage as error:
            with contextlib.suppress(LedgerUnavailable):  # it's counted, and recorded later
                await self._refusals.note(str(error))
            return canonical_json(error_answer(error)).encode() if isinstance(error, UnfollowableMessage) else None
        try:
            answering = self._answers.get(str(asked.get("question")))
            if answering is None:
                raise UsageError(f"This version doesn't know the question {asked.get('question')!a}.")
            async with self._places:
                answer = await answering(asked["about"])
            said = canonical_json({"answer": answer})
            if len(said) > MOST_CHARACTERS:
                raise UsageError("The answer is too long for a message.")
        except SupervisorError as error:
            return canonical_json(error_answer(error)).encode()
        except Exception as error:  # the edge: the hub is told, and the host goes on
            log.exception("a question of the hub couldn't be answered")
            return canonical_json({"error": describe(error), "retryable": False}).encode()
        return said.encode()

    def _check_new(self, asked: Mapping[str, Any]) -> None:
        """Raise for a question that was asked long ago or before: somebody has kept it."""
        try:
            name, at = str(asked["id"]), from_text(asked["asked_at"])
        except (KeyError, TypeError, ValueError):
            raise UnfollowableMessage("The hub's question isn't one of this version.") from None
        if abs(datetime.now(UTC) - at) > LONGEST_AGO:
            raise UnfollowableMessage(
                f"The hub's question was asked at {at:%H:%M:%S} UTC.",
                remedy="Synchronize the clocks of the hub and this host (NTP).",
            )
        if name in self._asked:
            raise InvalidMessage("A question of the hub was asked again by somebody else.")
        self._asked[name] = None
        while len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)

    async def _rows(self, about: Mapping[str, Any]) -> dict[str, Any]:
        position = Position.of(about)
        host = self._ledger.supervisor_id
        return await self._blocking(self._ledger.read, lambda connection: rows.rows_after(connection, host, position))

    async def _preview(self, about: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        workers = tuple(map(str, about["workers"]))
        command = Command(
            CATALOG.on_record(str(about["command"])).name,
            target=" ".join(workers),
            workers=workers,
            params=dict(about["params"]),
            label=about["label"],
            task_id=str(about["task_id"]),
        )
        return json.loads(canonical_json(list(await self._blocking(self._code.preview, command))))

    async def _commits(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = await self._blocking(self._code.commits, list(about["workers"]), int(about["most"]))
        return [dump_commit(each) for each in found]

    async def _find(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = await self._blocking(self._code.find, list(about["workers"]), str(about["name"]), int(about["most"]))
        return [{"commit": dump_commit(found[0]), "place": found[1]}] if found else []

    async def _logs(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = await self._view.newest_output(list(about["workers"]), int(about["count"]))
        return [dump_log(each) for each in found]

    async def _why(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = await self._view.explanations(list(about["workers"]))
        return [dump_explanation(each) for each in found]

    async def _usage(self, _about: Mapping[str, Any]) -> list[dict[str, Any]]:
        documents = await self._view.detailed_documents()
        return [{name: document[name] for name in USAGE} for document in documents]
