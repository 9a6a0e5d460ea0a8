"""The address of a worker in a fleet: its host and its id, such as `web-1/fetcher`. Pure.

A worker id has no slash, so an address is never the id of a worker of this host.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from supervisor_core.commands.catalog import find

SEPARATOR = "/"


class Address(NamedTuple):
    """A worker of a host."""

    host: str
    worker_id: str

    def __str__(self) -> str:
        return f"{self.host}{SEPARATOR}{self.worker_id}"


def is_address(worker_id: str) -> bool:
    """True for a worker of another host."""
    return SEPARATOR in worker_id


def address_of(text: str) -> Address:
    """The address that a text is; `ValueError` for an id of this host."""
    host, separator, worker_id = text.partition(SEPARATOR)
    if not separator:
        raise ValueError(f"{text} names no host")
    return Address(host, worker_id)


def by_host(worker_ids: Iterable[str]) -> dict[str, list[str]]:
    """The worker ids on each host, in their order, from addresses."""
    found: dict[str, list[str]] = {}
    for text in worker_ids:
        address = address_of(text)
        found.setdefault(address.host, []).append(address.worker_id)
    return found


def name_of(worker: str) -> str:
    """The id of a worker on its own host: `fetcher` for `web-1/fetcher`."""
    return worker.rpartition(SEPARATOR)[2]


def hosts_of(workers: Iterable[str], own: str) -> dict[str, tuple[str, ...]]:
    """The workers of each host as the configuration names them, this host first: it has those without an address."""
    found: dict[str, list[str]] = {own: []}
    for worker in workers:
        host = worker.partition(SEPARATOR)[0] if is_address(worker) else own
        found.setdefault(host, []).append(worker)
    return {host: tuple(there) for host, there in found.items()}


def by_address(workers: Iterable[str], hosts: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The workers by their addresses, in their order. Those of this host have one too, where its name is known."""
    own = next((host for host, there in hosts.items() if not all(map(is_address, there))), "")
    return {each if is_address(each) else str(Address(own, each)): each for each in workers}


SENTENCES = frozenset({"error", "message", "rests", "words"})
"""The keys of an outcome's details that hold sentences for people."""

NAMED_WORKERS = frozenset({"workers", "failed"})
"""The keys of an outcome's details that hold a value for each worker, by its id."""


def with_addresses(text: str, host: str, worker_ids: Iterable[str]) -> str:
    """A host's sentence whose commands can be given on the hub: `To restore it: undo web-1/fetcher task_1.`

    A command follows a colon, and its worker follows its name. Nothing else is replaced: `the` or `worker` may be the
    id of a worker as well as a word. The sentence is about its host anyway.
    """
    names = sorted(map(re.escape, worker_ids), key=len, reverse=True)
    if not names:
        return text
    commands = rf"(?<=: )([a-z-]+(?: [a-z-]+)??) ({'|'.join(names)})(?![\w/-]|\.\w)"
    return re.sub(commands, lambda found: _given_for(found, host), text)


def command_with_address(text: str, host: str, worker_id: str) -> str:
    """A command that a host wrote, with the address of this worker where it's its target; other text stays."""
    return re.sub(
        rf"^([a-z-]+(?: [a-z-]+)??) ({re.escape(worker_id)})(?!\S)", lambda found: _given_for(found, host), text
    )


def _given_for(found: re.Match[str], host: str) -> str:
    return f"{found[1]} {Address(host, found[2])}" if find(found[1]) else found[0]


def details_with_addresses(details: Mapping[str, Any], host: str, worker_ids: Collection[str]) -> dict[str, Any]:
    """The details of an outcome on a host as its hub shows them: these workers by their addresses."""

    def renamed(value: Any, key: str) -> Any:  # noqa: ANN401 (JSON)
        if isinstance(value, str):
            return with_addresses(value, host, worker_ids) if key in SENTENCES or key in worker_ids else value
        if not isinstance(value, Mapping):
            return value
        if key in NAMED_WORKERS:
            return {str(Address(host, name)): renamed(each, name) for name, each in value.items()}
        return {name: renamed(each, name) for name, each in value.items()}

    return {name: renamed(each, name) for name, each in details.items()}


def workers_in(details: Mapping[str, Any]) -> set[str]:
    """The workers that an outcome names, such as the others of a checkout."""
    some = [value for name in NAMED_WORKERS if isinstance(value := details.get(name), Mapping)]
    return {str(worker_id) for each in some for worker_id in each}


SILENT = "host_silent"
"""The key of a worker's status that says since when its host is unresponsive."""

NAMED = 5
"""Workers of an unresponsive host that are named."""


def fold_silent(workers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The workers, with those of each unresponsive host as one entry with the host's name."""
    folded: list[Mapping[str, Any]] = []
    silent: dict[str, list[Mapping[str, Any]]] = {}
    for worker in workers:
        if not worker.get(SILENT):
            folded.append(worker)
            continue
        host = address_of(worker["id"]).host
        if host not in silent:
            silent[host] = []
            folded.append({SILENT: host})  # its place
        silent[host].append(worker)
    return [_host_entry(each[SILENT], silent[each[SILENT]]) if "id" not in each else each for each in folded]


def _host_entry(host: str, workers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The status of a host in the form of a worker's."""
    names = [address_of(each["id"]).worker_id for each in workers]
    named = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    teams = {each.get("team") for each in workers}
    many = "1 worker" if len(names) == 1 else f"{len(names)} workers"
    return {
        **workers[0],
        "id": host,
        "team": (teams.pop() or "") if len(teams) == 1 else "",
        "state": "unresponsive",
        "health": "unknown",
        "fine": False,
        "pid": None,
        "paused": False,
        "quarantined": False,
        "muted_until": None,
        "last_error": None,
        "due_at": None,
        "restarts_last_hour": 0,
        "commit": None,
        "memory_bytes": None,
        "cpu_percent": None,
        "cpu_seconds": None,
        "reason": f"{workers[0][SILENT]}; {many}: {named}",
    }
