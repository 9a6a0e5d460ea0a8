"""The state that an approval is bound to: the exact command and the preview that people saw, and what changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from supervisor_core.code.change_plan import count, list_names, short, state_hash
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import Tier
from supervisor_core.common.text import canonical_json, capitalize, one_line, sentence
from supervisor_core.intake.rolling.rules import by_checkout, plan_batches, rolling_terms

if TYPE_CHECKING:
    from supervisor_core.workers.context import HostContext

Document = Mapping[str, Any]

NAMED = 3
LONGEST_EFFECT = 300  # characters: a line on a card and in a table


def states_of(workers: Sequence[str], previews: Sequence[Document]) -> dict[str, str]:
    """The state hash of each worker as the previews showed it; empty where it's unknown."""
    found = {worker["id"]: str(each.get("state") or "") for each in previews for worker in each["workers"]}
    return {worker_id: found.get(worker_id, "") for worker_id in workers}


def fingerprint(command: Command, previews: Sequence[Document]) -> str:
    """A hash that changes with the command and with everything that its previews showed."""
    facts: dict[str, Any] = {
        "command": command.name,
        "params": dict(command.params),
        "workers": list(command.workers),
        "label": command.label,
        "states": states_of(command.workers, previews),
    }
    if batches := with_batches(command, previews).batches:
        facts["batches"] = batches
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()


def with_batches(command: Command, previews: Sequence[Document]) -> Command:
    """A rolling change with its batches; any other command as it is."""
    terms = rolling_terms(command.params)
    if terms is None:
        return command
    return replace(command, batches=plan_batches(command.workers, terms, by_checkout(previews)))


def objections(previews: Sequence[Document]) -> list[str]:
    """The reasons why the command would fail now, with the workers if there are several checkouts."""
    found: dict[str, list[str]] = {}
    for each in previews:
        if word := each.get("refused") or each.get("conflict"):
            found.setdefault(sentence(str(word)), []).extend(worker["id"] for worker in each["workers"])
    several = len(previews) > 1
    return [f"{list_names(workers, NAMED)}: {words}" if several else words for words, workers in found.items()]


def does_nothing(preview: Document) -> bool:
    """True if the code is already as it should be, so that nothing changes and no worker stops."""
    changes = ("commit_count", "dropped", "changes", "undone_task_id", "installs")
    return bool(preview.get("checkout") and preview.get("ok")) and not any(preview.get(name) for name in changes)


def all_so_already(previews: Sequence[Document]) -> str:
    """A sentence that there's nothing to do; empty if there is something."""
    if not previews or not all(does_nothing(each) for each in previews):
        return ""
    who = list_names([worker["id"] for each in previews for worker in each["workers"]], NAMED)
    return f"Nothing to do for {who}: already up to date. No worker was stopped."


def stale(before: Sequence[Document], now: Sequence[Document]) -> str:
    """The changes between two previews, as a sentence."""
    old, new = _by_place(before), _by_place(now)
    words: list[str] = []
    for place, was in old.items():
        if place in new:
            words += _moved(place, was, new[place])
        else:
            words.append(f"{place} no longer exists")
    words += [f"{place} is new" for place in new if place not in old]
    said = "; ".join(words) or "something that it depends on has changed"
    workers = [worker["id"] for each in (*before, *now) for worker in each["workers"]]
    return f"{capitalize(said, *workers)}."


def effect(previews: Sequence[Document]) -> str:
    return one_line("; ".join(dict.fromkeys(_effect(each) for each in previews)), LONGEST_EFFECT)


def _by_place(previews: Sequence[Document]) -> dict[str, Document]:
    return {
        str(each.get("checkout") or list_names([w["id"] for w in each["workers"]], NAMED)): each for each in previews
    }


def _moved(place: str, was: Document, now: Document) -> list[str]:
    words = []
    if now.get("refused"):
        words.append(f"it would now be refused: {str(now['refused']).rstrip('.')}")
    elif now.get("conflict"):
        words.append(f"it would now fail: {str(now['conflict']).rstrip('.')}")
    elif was.get("would_run") != now.get("would_run"):
        words.append(f"it would now run {now.get('would_run')} instead of {was.get('would_run')}")
    heads = [str((each.get("head") or {}).get("hash") or "") for each in (was, now)]
    if all(heads) and heads[0] != heads[1]:
        words.append(f"{place} was at {short(heads[0])} and is now at {short(heads[1])}")
    targets = [str(each.get("target") or "") for each in (was, now)]
    if all(targets) and targets[0] != targets[1]:
        words.append(f"it would now lead to {short(targets[1])} instead of {short(targets[0])}")
    changes = set(was.get("changes") or ()) ^ set(now.get("changes") or ())
    if changes and not now.get("refused"):
        words.append(f"files in {place} have changed: {list_names(sorted(changes), NAMED)}")
    if (was.get("installs") or []) != (now.get("installs") or []) and not now.get("refused"):
        words.append("the packages to install have changed")
    return words + _workers_moved(was, now)


def _workers_moved(was: Document, now: Document) -> list[str]:
    old, new = ({worker["id"]: worker for worker in each["workers"]} for each in (was, now))
    words = [f"{worker_id} no longer runs from it" for worker_id in old if worker_id not in new]
    words += [f"{worker_id} now runs from it" for worker_id in new if worker_id not in old]
    for worker_id in old.keys() & new.keys():
        before, after = bool(old[worker_id]["paused"]), bool(new[worker_id]["paused"])
        if before != after:
            words.append(f"{worker_id} {'is now paused' if after else 'is no longer paused'}")
        elif (old[worker_id].get("rests") is None) != (startable := new[worker_id].get("rests") is None):
            words.append(f"{worker_id} {'can now be started' if startable else 'can no longer be started'}")
    return sorted(words)


def _effect(preview: Document) -> str:
    workers = [worker["id"] for worker in preview["workers"]]
    who = list_names(workers, NAMED)
    if preview.get("would_run"):
        return f"runs {preview['would_run']} in {preview['folder']}"
    if preview.get("checkout") is None:
        return f"{preview['command']} {who}"
    commits = count(int(preview.get("commit_count") or 0), "commit")
    files = count(int(preview.get("file_count") or 0), "file")
    back = "reverts" if preview["command"] in ("rollback", "undo") else "adds"
    parts = [f"{back} {commits} ({files})"] if preview.get("commit_count") else []
    parts += [f"drops {count(len(preview['dropped']), 'local commit')}"] if preview.get("dropped") else []
    parts += [f"discards changes to {count(len(preview['changes']), 'file')}"] if preview.get("changes") else []
    moves = bool(parts)
    parts += ["installs packages"] if preview.get("installs") else []
    head, target = str((preview.get("head") or {}).get("hash") or ""), str(preview.get("target") or "")
    leads = (
        f" from {short(head)}" + (f" to {short(target)}" if target and target != head else "") if head and moves else ""
    )
    if not parts:
        return (
            f"nothing to do for {who}, already up to date" if not preview.get("undone_task_id") else f"undo for {who}"
        )
    return f"{', '.join(parts)}{leads}, for {who}"


Previews = tuple[dict[str, Any], ...]
Observe = Callable[[Command], Previews]
"""Previews a command; a `SupervisorError` if that isn't possible now. It asks git and the drive, so it blocks."""


def observer(host: Callable[[], HostContext]) -> Observe:
    """Observes through the doors of this host, with the configuration that is in force at the time."""

    def observe(command: Command) -> Previews:
        from supervisor_core.code.planning import preview  # late: a shell that only sends must not pay for it

        doors = host()
        if CATALOG.on_record(command.name).tier is Tier.CODE:
            return tuple(each.as_json() for each in preview(doors, command))
        return tuple(_of_worker(doors, command, worker_id) for worker_id in command.workers)

    return observe


def _of_worker(host: HostContext, command: Command, worker_id: str) -> dict[str, Any]:
    """For a command that changes no code: whether the worker is paused, and whether it may be started."""
    from supervisor_core.code.planning import worker_now
    from supervisor_core.jobs.planned_runs import would_run

    settings = host.config.worker(worker_id)
    worker, runs = worker_now(host, settings), would_run(host.config, settings, command)
    facts = runs.pop("facts", None) or {
        "worker": worker_id,
        "paused": bool(worker.paused),
        "rests": worker.rests,
        "quarantined": host.quarantines.read(worker_id) is not None,
        **runs,
    }
    return {
        "command": command.name,
        "checkout": None,
        "ok": True,
        "refused": None,
        "conflict": None,
        "workers": [worker.as_json()],
        "state": state_hash(facts),
        **runs,
    }
