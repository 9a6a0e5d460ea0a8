"""Flag files: the command that a file name and its content order, or the reason why not. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from supervisor_core.commands.catalog import FLAG_HANDLERS, HANDLERS, by_handler, check_params, find
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.labels import clean_label
from supervisor_core.commands.parameters import TASK_ID
from supervisor_core.commands.targets import WORKER_ID
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.common.text import canonical_json, nearest
from supervisor_core.common.times import from_text, to_text

MAX_BYTES = 64 * 1024
"""A flag has a few hundred bytes; a larger one is a mistake or an attack."""

MAX_DEPTH = 20
"""Nested objects and lists; ours have three. Deeper JSON would exhaust Python's stack."""

MAX_ISSUER_ID, MAX_ISSUER_NAME = 128, 255
"""Characters, as many as the tables hold."""

CLOCK_SKEW = timedelta(minutes=5)
"""How far in the future a signed flag may be issued, because the clocks of hosts differ."""

PREFIX, SUFFIX = "supervisor_", ".flag"
_LONGEST_FIRST = sorted(FLAG_HANDLERS, key=len, reverse=True)

UNKNOWN = "unknown"
"""The handler or worker of a flag whose name doesn't have a valid one."""


class FlagRejected(SupervisorError):
    """This flag isn't valid."""


class FlagIncomplete(SupervisorError):
    """This flag is empty or isn't JSON, perhaps because it's still being written."""

    retryable = True


@dataclass(frozen=True, slots=True)
class FlagName:
    """The parts of a flag's file name."""

    handler: str
    worker_id: str
    task_id: str | None


@dataclass(frozen=True, slots=True)
class FlagClaims:
    """The fields of a rejected flag, as far as they are readable."""

    handler: str
    worker_id: str
    task_id: str | None
    label: str | None


@dataclass(frozen=True, slots=True)
class FlagCommand:
    """The command of a valid flag. It has an issuer only with a valid signature."""

    handler: str
    worker_id: str
    task_id: str
    params: Mapping[str, Any]
    label: str | None
    issuer: Issuer | None
    approvals: tuple[Mapping[str, Any], ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trust:
    """The terms of a valid signature; without a secret no flag has an issuer."""

    secret: str
    max_age: timedelta
    supervisor_id: str
    """Ours. A flag that is signed for another supervisor is rejected, whatever worker it names."""


def is_task_id(text: object) -> bool:
    return isinstance(text, str) and TASK_ID.fullmatch(text) is not None


def parse_name(name: str) -> FlagName | None:
    """The parts of a flag's file name; None for any other file. The longest handler wins."""
    if not (name.startswith(PREFIX) and name.endswith(SUFFIX)):
        return None
    body = name[len(PREFIX) : -len(SUFFIX)]
    for handler in _LONGEST_FIRST:
        if not body.startswith(f"{handler}_"):
            continue
        worker_id, separator, task_id = body[len(handler) + 1 :].partition("_")
        if not WORKER_ID.fullmatch(worker_id) or (separator and not is_task_id(task_id)):
            return None
        return FlagName(_canonical(handler), worker_id, task_id or None)
    return None


def parse_unknown_name(name: str, worker_ids: tuple[str, ...]) -> str | None:
    """The worker in the name of a flag with an unknown handler, so that the flag is rejected instead of ignored."""
    if not (name.startswith(PREFIX) and name.endswith(SUFFIX)) or parse_name(name) is not None:
        return None
    parts = name[len(PREFIX) : -len(SUFFIX)].split("_")
    return next((part for part in parts if part in worker_ids), None)


def suggest_name(name: str, worker_ids: tuple[str, ...]) -> str:
    """The name that a flag with an unknown handler should have; empty if no handler is close.

    People write the command's word: `supervisor_rollback_North.flag` for `rollback_code`.
    """
    worker_id = parse_unknown_name(name, worker_ids)
    if worker_id is None:
        return ""
    body = name[len(PREFIX) : -len(SUFFIX)]
    word, _, rest = body.partition(f"_{worker_id}")
    definition = find(word)
    handler = definition.handler if definition and definition.handler else nearest(word, HANDLERS)
    right = f"{PREFIX}{handler}_{worker_id}{rest}{SUFFIX}"
    return right if handler and parse_name(right) else ""


def find_misspelled(name: str, worker_ids: Collection[str]) -> str | None:
    """The configured worker whose name a flag has in another case."""
    flag = parse_name(name)
    if flag is None or flag.worker_id in worker_ids:
        return None
    return next((each for each in worker_ids if each.casefold() == flag.worker_id.casefold()), None)


def worker_of(name: str, worker_ids: tuple[str, ...]) -> str | None:
    """The configured worker that a flag is for, also where its name is wrong; None where it's for another host."""
    flag = parse_name(name)
    if flag is None:
        return parse_unknown_name(name, worker_ids)
    return flag.worker_id if flag.worker_id in worker_ids else find_misspelled(name, worker_ids)


def claims_of(name: str, data: bytes, worker_ids: tuple[str, ...]) -> FlagClaims:
    """The fields of a rejected flag from its name, else from its content, so that its sender finds the result."""
    flag = parse_name(name)
    body: Mapping[str, Any] = {}
    with suppress(FlagRejected, FlagIncomplete):
        body = _document(data)
    task_id = flag.task_id if flag else _id_behind_worker(name, worker_ids)
    if task_id is None and is_task_id(body.get("task_id")):
        task_id = str(body["task_id"])
    label = None
    with suppress(FlagRejected, UsageError):
        label = clean_label(_text(body, "label"))
    return FlagClaims(flag.handler if flag else UNKNOWN, worker_of(name, worker_ids) or UNKNOWN, task_id, label)


def _id_behind_worker(name: str, worker_ids: tuple[str, ...]) -> str | None:
    """The command id in the name of a flag with an unknown handler."""
    worker_id = parse_unknown_name(name, worker_ids)
    if worker_id is None:
        return None
    task_id = name[: -len(SUFFIX)].partition(f"_{worker_id}_")[2]
    return task_id if is_task_id(task_id) else None


def parse_body(data: bytes, name: FlagName, made_task_id: str, now: datetime, trust: Trust | None) -> FlagCommand:
    """The command of a flag. `made_task_id` is its id where neither its name nor its content has one.

    `FlagIncomplete` if the file may still be being written, `FlagRejected` with the reason otherwise.
    """
    body = _document(data)
    if trust is not None:
        _verify(body, trust, now)
    elif "issuer" in body or "approvals" in body:
        raise FlagRejected(
            "An issuer and approvals need a signature, but inbox.secret isn't configured.",
            remedy="Remove them; the file's owner is recorded instead.",
        )
    handler = _agree(name.handler, _canonical(_text(body, "handler")), "handler")
    worker_id = _agree(name.worker_id, _text(body, "worker_id"), "worker_id")
    task_id = _agree(name.task_id, _text(body, "task_id"), "task_id") or made_task_id
    if not is_task_id(task_id):
        raise FlagRejected("task_id must be 1 to 128 letters, digits, hyphens or underscores.")
    definition = by_handler(str(handler))
    if definition is None:
        raise FlagRejected(f"There's no handler {handler!r}.")
    known = (*definition.parameters, *definition.unseen, *definition.note_parameters)
    parameters = {parameter.name for parameter in known}
    if misplaced := sorted(parameters.intersection(body) - _KNOWN):
        raise FlagRejected(
            f"{', '.join(misplaced)} must be inside params, not beside it.",
            remedy=f'Write {{"params": {{"{misplaced[0]}": …}}}}.',
        )
    try:
        params = check_params(
            definition, {} if body.get("params") == [] else _mapping(body, "params")
        )  # PHP's empty one
        label = clean_label(_text(body, "label"))
    except UsageError as error:
        raise FlagRejected(str(error)) from error
    return FlagCommand(
        handler=str(handler),
        worker_id=str(worker_id),
        task_id=task_id,
        params=params,
        label=label,
        issuer=_issuer(body),
        approvals=_approvals(body),
        ignored=tuple(sorted(set(body) - _KNOWN)),
    )


_SIGNED = ("signature", "issued_at", "handler", "worker_id", "task_id", "supervisor_id")

_KNOWN = {
    "task_id",
    "handler",
    "worker_id",
    "supervisor_id",
    "label",
    "params",
    "issuer",
    "approvals",
    "issued_at",
    "signature",
    "job_id",  # of the console of Cornerstone Archive, for itself
}


def sign(body: Mapping[str, Any], secret: str) -> str:
    """The signature of a flag's content: HMAC-SHA256, in hex, over its canonical JSON without `signature`."""
    unsigned = {key: value for key, value in body.items() if key != "signature"}
    return hmac.new(secret.encode(), canonical_json(unsigned).encode(), hashlib.sha256).hexdigest()


def _document(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise FlagIncomplete("The file is empty.")
    try:
        body = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_no_twice,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise FlagRejected("The JSON is nested too deeply.") from None
    except UnicodeDecodeError:
        raise FlagIncomplete("The file isn't UTF-8 text.") from None
    except ValueError as error:
        raise FlagIncomplete(f"The file isn't valid JSON: {error}.") from None
    if not isinstance(body, dict):
        raise FlagRejected(f"The file must contain a JSON object, not {_kind(body)}.")
    if _is_deeper(body, MAX_DEPTH):
        raise FlagRejected("The JSON is nested too deeply.")
    return body


def _is_deeper(value: object, most: int) -> bool:
    level: list[object] = [value]
    for _ in range(most):
        inside: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inside.extend(each.values())
            elif isinstance(each, list):
                inside.extend(each)
        level = inside
    return any(isinstance(each, (dict, list)) for each in level)


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise FlagRejected("A key appears twice.")
    return document


def _no_constant(text: str) -> None:
    raise FlagRejected(f"{text} isn't valid JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # it would be written back as invalid JSON
        raise FlagRejected("A number is too large.")
    return number


def _verify(body: Mapping[str, Any], trust: Trust, now: datetime) -> None:
    missing = [key for key in _SIGNED if not body.get(key)]
    if missing:
        raise FlagRejected(
            f"inbox.secret is configured, so a flag needs {', '.join(missing)}.",
            remedy=f'Add "supervisor_id": "{trust.supervisor_id}" and sign it again.'
            if "supervisor_id" in missing
            else "",
        )
    signature = str(body["signature"]).encode("utf-8", "backslashreplace")
    if not hmac.compare_digest(sign(body, trust.secret).encode(), signature):
        raise FlagRejected("The signature doesn't match the content.")
    if body["supervisor_id"] != trust.supervisor_id:
        raise FlagRejected(
            f"The flag is signed for supervisor {str(body['supervisor_id'])[:MAX_ISSUER_ID]!a}; this is "
            f"{trust.supervisor_id!a}."
        )
    try:
        issued_at = from_text(str(body["issued_at"]))
    except ValueError:
        raise FlagRejected("issued_at must be ISO 8601 in UTC, such as 2026-02-05T14:30:15Z.") from None
    if now - issued_at > trust.max_age:
        raise FlagRejected(f"Issued at {to_text(issued_at)}, which is longer ago than inbox.max_age_minutes allows.")
    if issued_at - now > CLOCK_SKEW:
        raise FlagRejected(f"Issued at {to_text(issued_at)}, which is in the future. Compare the clocks.")


def _agree(in_name: str | None, in_body: str | None, what: str) -> str | None:
    if in_name is not None and in_body is not None and in_name != in_body:
        raise FlagRejected(f"The file name has {what} {in_name!r}, but the content has {in_body!r}.")
    return in_name if in_body is None else in_body


def _canonical(handler: str | None) -> Any:  # noqa: ANN401 (the type that came in)
    definition = by_handler(handler) if handler is not None else None
    return definition.handler if definition else handler


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise FlagRejected(f"{key} must be text, not {_kind(value)}.")
    return value


def _mapping(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    if value is not None and not isinstance(value, dict):
        raise FlagRejected(f"{key} must be a JSON object, not {_kind(value)}.")
    return value or {}


def _issuer(body: Mapping[str, Any]) -> Issuer | None:
    if body.get("issuer") is None:
        return None
    value = _mapping(body, "issuer")
    issuer_id, name = value.get("id"), value.get("name", "")
    if not issuer_id or not _is_name(issuer_id, MAX_ISSUER_ID) or not _is_name(name, MAX_ISSUER_NAME):
        raise FlagRejected('issuer must be {"id": text, "name": text}, each one line without control characters.')
    return Issuer(issuer_id, name)


def _approvals(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    value = [] if body.get("approvals") is None else body["approvals"]
    if not isinstance(value, list) or not all(isinstance(vote, dict) and _is_vote(vote) for vote in value):
        raise FlagRejected('approvals must be a list of {"id": text, "name": text, "at": text}.')
    return tuple(value)


def _is_vote(vote: Mapping[str, Any]) -> bool:
    limits = {"id": MAX_ISSUER_ID, "name": MAX_ISSUER_NAME, "at": MAX_ISSUER_ID}
    return bool(vote.get("id")) and all(_is_name(vote.get(key) or "", most) for key, most in limits.items())


def _is_name(value: object, most: int) -> bool:
    """True for one line of text that every database takes: emoji yes, surrogates and NULs no."""
    return (
        isinstance(value, str)
        and len(value) <= most
        and not any(unicodedata.category(character) in _NOT_IN_NAMES for character in value)
    )


_NOT_IN_NAMES = ("Cc", "Cs", "Zl", "Zp")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
