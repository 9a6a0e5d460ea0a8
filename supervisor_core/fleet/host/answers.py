"""Answers the hub's questions. Nothing is changed by an answer; each has the host's own limits."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.common.errors import SupervisorError, UsageError, describe
from supervisor_core.common.service import Blocking
from supervisor_core.common.text import canonical_json
from supervisor_core.fleet import rows
from supervisor_core.fleet.doors import HostDoors
from supervisor_core.fleet.questions import Question
from supervisor_core.fleet.rows import Position
from supervisor_core.fleet.signing import QUESTION, Verifier, read_signed
from supervisor_core.fleet.values import dump_commit, dump_explanation, dump_log
from supervisor_core.storage.store import Ledger

MOST_CHARACTERS = 900_000
"""Of an answer: a message of NATS holds 1 MB."""

AT_ONCE = 16

log = logging.getLogger(__name__)


class QuestionAnswers:
    """Answers each question of the hub; any other message gets no answer."""

    def __init__(
        self,
        host: str,
        ledger: Ledger,
        blocking: Blocking,
        doors: HostDoors,
        verify: Verifier,
        snapshot: Callable[[], Awaitable[dict[str, Any]]],
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._blocking = blocking
        self._doors = doors
        self._verify = verify
        self._snapshot = snapshot
        self._places = asyncio.Semaphore(AT_ONCE)
        self._answers: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            Question.ROWS: self._rows,
            Question.SNAPSHOT: lambda _: self._snapshot(),
            Question.PREVIEW: self._preview,
            Question.COMMITS: self._commits,
            Question.FIND: self._find,
            Question.LOGS: self._logs,
            Question.WHY: self._why,
            Question.VERSIONS: self._versions,
        }

    async def answer(self, data: bytes) -> bytes:
        """The answer to a question. Its errors are answers, too."""
        try:
            asked = read_signed(QUESTION, data, self._host, self._verify)
            answering = self._answers.get(str(asked.get("question")))
            if answering is None:
                raise UsageError(f"This version doesn't know the question {asked.get('question')!a}.")
            async with self._places:
                answer = await answering(asked["about"])
            said = canonical_json({"answer": answer})
            if len(said) > MOST_CHARACTERS:
                raise UsageError("The answer is too long for a message.")
        except SupervisorError as error:
            return canonical_json({"error": str(error), "retryable": error.retryable}).encode()
        except Exception as error:  # the edge: the hub is told, and the host goes on
            log.exception("a question of the hub couldn't be answered")
            return canonical_json({"error": describe(error), "retryable": False}).encode()
        return said.encode()

    async def _rows(self, about: Mapping[str, Any]) -> dict[str, Any]:
        position = Position.of(about)
        host = self._ledger.supervisor_id
        return await self._blocking(self._ledger.read, lambda connection: rows.rows_after(connection, host, position))

    async def _preview(self, about: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
        command = Command(
            CATALOG[about["command"]].name,
            target=str(about["target"]),
            workers=tuple(map(str, about["workers"])),
            params=dict(about["params"]),
            label=about["label"],
            task_id=str(about["task_id"]),
        )
        found = await self._blocking(self._doors.code.preview, command)
        return json.loads(canonical_json(list(found)))

    async def _commits(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = await self._blocking(self._doors.code.commits, list(about["workers"]), int(about["most"]))
        return [dump_commit(each) for each in found]

    async def _find(self, about: Mapping[str, Any]) -> dict[str, Any] | None:
        found = await self._blocking(
            self._doors.code.find, list(about["workers"]), str(about["name"]), int(about["most"])
        )
        return {"commit": dump_commit(found[0]), "place": found[1]} if found else None

    async def _logs(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = await self._doors.view.newest_output(list(about["workers"]), int(about["count"]))
        return [dump_log(each) for each in found]

    async def _why(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = await self._doors.view.explanations(list(about["workers"]))
        return [dump_explanation(each) for each in found]

    async def _versions(self, _about: Mapping[str, Any]) -> dict[str, str]:
        return dict(await self._doors.view.versions())
