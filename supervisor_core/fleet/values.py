"""Commits, log lines and explanations as answers hold them, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from supervisor_core.code.change_plan import Commit
from supervisor_core.commands.addresses import Address, command_with_address
from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.labels import clean_label
from supervisor_core.commands.phrases import Part, Phrase, WorkerName
from supervisor_core.common.errors import CommandText, Identifier, SupervisorError, Verbatim
from supervisor_core.common.times import from_text, to_text
from supervisor_core.diagnosis.why.model import Cause, Circumstance, Explanation, Finding, PastEvent
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.fleet.questions import HostError

Document = dict[str, Any]

T = TypeVar("T")

_TYPED: Mapping[str, type[Verbatim]] = {"command": CommandText, "id": Identifier, "typed": Verbatim}


def load_answers(host: str, answers: Any, load: Callable[[str, Mapping[str, Any]], T]) -> list[T]:  # noqa: ANN401 (JSON)
    """The values in a host's answer; `HostError` if one of them isn't what this program's hosts answer."""
    try:
        return [load(host, each) for each in answers]
    except (SupervisorError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise HostError(f"{host}: its answer isn't one of this program's.") from None


def unexplained(worker_id: str, problem: str, now: datetime) -> Explanation:
    """The explanation of a worker whose host doesn't explain it."""
    sentence = (WorkerName(worker_id), f" can't be explained: {problem}")
    return Explanation(worker_id, now, fine=False, found=Finding(Cause.NOT_KNOWN, sentence))


def dump_commit(commit: Commit) -> Document:
    return {**asdict(commit), "at": to_text(commit.at)}


def load_commit(document: Mapping[str, Any]) -> Commit:
    words = {name: str(document[name]) for name in ("hash", "tree", "author", "subject", "body")}
    return Commit(**words, parents=tuple(map(str, document["parents"])), at=from_text(document["at"]))


def dump_log(log: WorkerLog) -> Document:
    return asdict(log)


def load_log(host: str, document: Mapping[str, Any]) -> WorkerLog:
    """The log lines in a host's answer, under the worker's address."""
    return WorkerLog(
        str(Address(host, document["worker_id"])),
        str(document["path"]),
        tuple(map(str, document["lines"])),
        int(document["size_bytes"]),
        str(document["problem"]),
        bool(document["nothing"]),
    )


def dump_explanation(told: Explanation) -> Document:
    found = told.found
    return {
        "worker_id": told.worker_id,
        "at": to_text(told.at),
        "fine": told.fine,
        "cause": str(found.cause),
        "sentence": _dump_phrase(found.sentence),
        "todo": _dump_phrase(found.todo),
        "remedies": [_dump_remedy(each) for each in found.remedies],
        "since": _dump_moment(found.since),
        "also": [_dump_phrase(each) for each in found.also],
        "conditions": [{"words": each.words, "since": _dump_moment(each.since)} for each in told.conditions],
        "before": [{"at": to_text(each.at), "words": _dump_phrase(each.words)} for each in told.before],
        "lines": list(told.lines),
        "log": told.log,
        "unknown": list(told.unknown),
    }


def load_explanation(host: str, document: Mapping[str, Any]) -> Explanation:
    """The explanation in a host's answer. Its commands name the worker by its address."""
    worker_id = str(document["worker_id"])
    address = str(Address(host, worker_id))

    def phrase(parts: list[Any]) -> Phrase:
        return tuple(_load_part(each, worker_id, host) for each in parts)

    found = Finding(
        Cause(document["cause"]),
        phrase(document["sentence"]),
        phrase(document["todo"]),
        tuple(_load_remedy(each, address) for each in document["remedies"]),
        _load_moment(document["since"]),
        tuple(phrase(each) for each in document["also"]),
    )
    return Explanation(
        address,
        from_text(document["at"]),
        bool(document["fine"]),
        found,
        tuple(Circumstance(str(each["words"]), _load_moment(each["since"])) for each in document["conditions"]),
        tuple(PastEvent(from_text(each["at"]), phrase(each["words"])) for each in document["before"]),
        tuple(map(str, document["lines"])),
        str(document["log"]),
        tuple(map(str, document["unknown"])),
    )


def _dump_phrase(phrase: Phrase) -> list[Any]:
    return [_dump_part(each) for each in phrase]


def _dump_part(part: Part) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(part, datetime):
        return {"at": to_text(part)}
    if isinstance(part, Issuer):
        return {"issuer": [part.id, part.name, part.owner]}
    if isinstance(part, WorkerName):
        return {"worker": str(part)}
    for kind, typed in _TYPED.items():
        if type(part) is typed:
            return {kind: str(part)}
    return str(part)


def _load_part(part: Any, worker_id: str, host: str) -> Part:  # noqa: ANN401 (JSON)
    if isinstance(part, str):
        return part
    ((kind, value),) = part.items()
    if kind == "at":
        return from_text(value)
    if kind == "issuer":
        return Issuer(*map(str, value))
    text = str(value)
    if kind == "worker":
        return WorkerName(Address(host, text))
    return _TYPED[kind](command_with_address(text, host, worker_id))


def _dump_remedy(command: Command) -> Document:
    return {"name": command.name, "params": dict(command.params), "label": command.label}


def _load_remedy(document: Mapping[str, Any], address: str) -> Command:
    definition = CATALOG[document["name"]]
    check_params(definition, document["params"])
    return Command.for_worker(definition.name, address, dict(document["params"]), clean_label(document["label"]))


def _dump_moment(moment: datetime | None) -> str | None:
    return to_text(moment) if moment else None


def _load_moment(text: str | None) -> datetime | None:
    return from_text(text) if text else None
