"""The questions of a hub to its hosts, each with a deadline, and the values in their answers."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from supervisor_core.code.change_plan import Commit
from supervisor_core.commands.addresses import Address, command_with_address
from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.labels import clean_label
from supervisor_core.commands.phrases import Part, Phrase, WorkerName
from supervisor_core.common.errors import CommandText, Identifier, SupervisorError, TemporaryError, Verbatim
from supervisor_core.common.text import canonical_json, one_line
from supervisor_core.common.times import from_text, to_text
from supervisor_core.diagnosis.why.model import Cause, Circumstance, Explanation, Finding, PastEvent
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.fleet.keys import QUESTION, KeyPair, signed
from supervisor_core.fleet.reports import POSITION, PRESENCE, InvalidReport, decode
from supervisor_core.fleet.transport import subjects
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.workers.conditions import Condition, Reading, Severity, Target, TargetReading

Document = dict[str, Any]

T = TypeVar("T")

_TYPED: Mapping[str, type[Verbatim]] = {"command": CommandText, "id": Identifier, "typed": Verbatim}

USUAL_SECONDS = 5.0
"""The interval of a host that doesn't say at which one it speaks."""

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 300.0

ANSWER_SECONDS = 5.0
"""The longest wait for an answer; a preview may take as long as the host gives it."""

LONGEST_ERROR = 2_000
"""Characters of a host's refusal."""

LONGEST_PRESENCE = 4_096
"""Bytes of a presence message, which each host sends all the time."""


class Question(StrEnum):
    ROWS = "rows"
    """The rows of the ledger after a position."""
    SNAPSHOT = "snapshot"
    """The workers, their status and their conditions."""
    PREVIEW = "preview"
    """The effect that a command would have."""
    COMMITS = "commits"
    FIND = "find"
    LOGS = "logs"
    WHY = "why"
    USAGE = "usage"
    """The commit, memory and CPU time of each worker."""


class HostError(SupervisorError):
    """A host's refusal to answer."""


class HostAway(TemporaryError):
    """A host that doesn't answer now."""


@dataclass(frozen=True, slots=True)
class PresenceMessage:
    host: str
    at: datetime
    ledger: str
    """The id of its ledger."""
    position: Mapping[str, int]
    """Its newest rows."""
    snapshot: int
    """The number of its newest snapshot."""
    life: str
    """The id of this run of its daemon: snapshots are numbered anew in each."""
    version: str
    every: float = USUAL_SECONDS
    """The seconds between two of these messages when nothing changes."""

    def encode(self) -> bytes:
        document = {name: getattr(self, name) for name in self.__slots__}
        return canonical_json({**document, "at": to_text(self.at), "position": dict(self.position)}).encode()


def read_presence(host: str, data: bytes) -> PresenceMessage | None:
    """The presence in a message on this host's subject; None for any other bytes."""
    if len(data) > LONGEST_PRESENCE:
        return None
    try:
        presence = decode("presence", json.loads(data), PRESENCE)
        position = decode("position", presence["position"], POSITION)
    except (ValueError, RecursionError, InvalidReport):
        return None
    if presence["host"] != host:
        return None
    every = USUAL_SECONDS if presence["every"] is None else presence["every"]
    every = float(min(LONGEST_SECONDS, max(SHORTEST_SECONDS, every)))
    ledger, life, version = (presence[name] for name in ("ledger", "life", "version"))
    return PresenceMessage(
        host, from_text(presence["at"]), ledger, position, presence["snapshot"], life, version, every
    )


def reading_document(seen: TargetReading) -> dict[str, Any]:
    facts = {name: to_text(fact) if isinstance(fact, datetime) else fact for name, fact in asdict(seen.reading).items()}
    return {"kind": seen.target.kind, "id": seen.target.id, **facts}


def read_reading(document: Mapping[str, Any]) -> TargetReading:
    names = ("held_until", "restarts_at")  # an older host doesn't say the second one
    moments = {name: from_text(document[name]) for name in names if document.get(name)}
    reading = Reading(
        Condition(document["condition"]),
        str(document["reason"]),
        from_text(document["since"]),
        healing=bool(document["healing"]),
        severity=Severity(document["severity"]) if document["severity"] else None,
        **moments,
    )
    return TargetReading(Target(str(document["kind"]), str(document["id"])), reading)


def load_answers(host: str, answers: Any, load: Callable[[str, Mapping[str, Any]], T]) -> list[T]:  # noqa: ANN401 (JSON)
    """The values in a host's answer; `HostError` if one of them isn't what this program's hosts answer."""
    try:
        return [load(host, each) for each in answers]
    except (SupervisorError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise HostError(f"{host}: its answer isn't one of this program's.") from None


def dump_commit(commit: Commit) -> Document:
    return {**asdict(commit), "at": to_text(commit.at)}


def load_commit(document: Mapping[str, Any]) -> Commit:
    words = {name: str(document[name]) for name in ("hash", "tree", "author", "subject", "body")}
    return Commit(**words, parents=tuple(map(str, document["parents"])), at=from_text(document["at"]))


def load_log(host: str, document: Mapping[str, Any]) -> WorkerLog:
    return WorkerLog(
        str(Address(host, document["worker_id"])),
        str(document["path"]),
        tuple(map(str, document["lines"])),
        int(document["size_bytes"]),
        str(document["problem"]),
        bool(document["nothing"]),
    )


def dump_explanation(told: Explanation) -> Document:
    finding = told.found
    return {
        "worker_id": told.worker_id,
        "at": to_text(told.at),
        "fine": told.fine,
        "cause": str(finding.cause),
        "sentence": [_dump_part(part) for part in finding.sentence],
        "todo": [_dump_part(part) for part in finding.todo],
        "remedies": [
            {"name": command.name, "params": dict(command.params), "label": command.label}
            for command in finding.remedies
        ],
        "since": to_text(finding.since) if finding.since else None,
        "also": [[_dump_part(part) for part in phrase] for phrase in finding.also],
        "conditions": [
            {"words": condition.words, "since": to_text(condition.since) if condition.since else None}
            for condition in told.conditions
        ],
        "before": [
            {"at": to_text(event.at), "words": [_dump_part(part) for part in event.words]} for event in told.before
        ],
        "lines": list(told.lines),
        "log": told.log,
        "unknown": list(told.unknown),
    }


def _dump_part(part: Part) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(part, datetime):
        return {"at": to_text(part)}
    if isinstance(part, Issuer):
        return {"issuer": [part.id, part.name, part.owner]}
    if isinstance(part, WorkerName):
        return {"worker": str(part)}
    kind = next((kind for kind, typed in _TYPED.items() if type(part) is typed), None)
    return {kind: str(part)} if kind else str(part)


def load_explanation(host: str, document: Mapping[str, Any]) -> Explanation:
    """The explanation in a host's answer. Its commands name the worker by its address."""
    worker_id = str(document["worker_id"])
    address = str(Address(host, worker_id))

    def part(said: Any) -> Part:  # noqa: ANN401 (JSON)
        if isinstance(said, str):
            return said
        ((kind, value),) = said.items()
        if kind == "at":
            return from_text(value)
        if kind == "issuer":
            return Issuer(*map(str, value))
        if kind == "worker":
            return WorkerName(Address(host, str(value)))
        return _TYPED[kind](command_with_address(str(value), host, worker_id))

    def phrase(parts: list[Any]) -> Phrase:
        return tuple(map(part, parts))

    def remedy(said: Mapping[str, Any]) -> Command:
        definition = CATALOG[said["name"]]
        check_params(definition, said["params"])
        return Command.for_worker(definition.name, address, dict(said["params"]), clean_label(said["label"]))

    def moment(text: str | None) -> datetime | None:
        return from_text(text) if text else None

    finding = Finding(
        Cause(document["cause"]),
        phrase(document["sentence"]),
        phrase(document["todo"]),
        tuple(map(remedy, document["remedies"])),
        moment(document["since"]),
        tuple(map(phrase, document["also"])),
    )
    return Explanation(
        address,
        from_text(document["at"]),
        bool(document["fine"]),
        finding,
        tuple(Circumstance(str(said["words"]), moment(said["since"])) for said in document["conditions"]),
        tuple(PastEvent(from_text(said["at"]), phrase(said["words"])) for said in document["before"]),
        tuple(map(str, document["lines"])),
        str(document["log"]),
        tuple(map(str, document["unknown"])),
    )


class Asker:
    """Asks one host at a time; a host that is away is a `HostAway`, a refusal a `HostError`."""

    def __init__(self, connection: FleetConnection, key: KeyPair) -> None:
        self._connection = connection
        self._key = key
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Ask from now on in the running event loop, from any thread."""
        self._loop = asyncio.get_running_loop()

    async def __call__(
        self, host: str, question: Question, about: Mapping[str, Any], seconds: float = ANSWER_SECONDS
    ) -> tuple[Any, int]:
        asked_at, number = to_text(datetime.now(UTC)), uuid.uuid4().hex
        body = {"question": str(question), "about": dict(about), "asked_at": asked_at, "id": number}
        data = signed(QUESTION, host, body, self._key)
        try:
            received = await self._connection.request(subjects.ask_subject(host), data, seconds)
        except TemporaryError as error:
            raise HostAway(f"{host} doesn't answer.", remedy="Try again when it's connected.") from error
        try:
            answer = json.loads(received)
            if "error" not in answer:
                return answer["answer"], len(received)
            kind = HostAway if answer.get("retryable") else HostError
            reason = one_line(str(answer["error"]), LONGEST_ERROR)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise HostError(f"{host}: its answer isn't one of this program's.") from None
        raise kind(f"{host}: {reason}")

    def wait(self, asking: Coroutine[Any, Any, T], seconds: float) -> T:
        """Wait in a thread for what only the event loop can do."""
        if self._loop is None:
            asking.close()
            raise HostAway("The hub isn't connected to its hosts yet.", remedy="Try again.")
        future = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            return future.result(seconds)
        except FutureTimeout:
            future.cancel()
            raise HostAway("A host didn't answer in time.", remedy="Try again.") from None
