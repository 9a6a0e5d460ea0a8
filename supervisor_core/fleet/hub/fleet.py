"""The whole fleet as the hub's other parts see it: this host's workers by their ids, all others by their addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from supervisor_core.code.change_plan import Commit
from supervisor_core.code.preview import PREVIEW_SECONDS
from supervisor_core.code.watch.rules import WatchedWorker, watched_elsewhere
from supervisor_core.commands.addresses import Address, address_of, by_host, is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import Facts, facts_of
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.fleet.hub.host_questions import Asker
from supervisor_core.fleet.hub.hosts import FleetHosts
from supervisor_core.fleet.questions import HostAway, Question
from supervisor_core.fleet.reports import COMMIT, USAGE, decode
from supervisor_core.fleet.values import load_answers, load_commit, load_explanation, load_log, unexplained

if TYPE_CHECKING:
    from supervisor_core.daemon.status import LiveView
    from supervisor_core.daemon.wiring import CodeReader

Documents = list[dict[str, Any]]

MARGIN_SECONDS = 5.0
"""The way to a host and back, beside the time that the answer takes there."""

MOST_KEPT = 20_000
"""Workers whose settings are kept: to make those of 10,000 takes a second, and one of them changes at a time."""

LOG_SECONDS = 15.0
WHY_SECONDS = 15.0
USAGE_SECONDS = 1.0
"""Whoever looks at the status gives up after 2 s."""


class Fleet:
    """Answers about all workers. A host that is away is named in the answer, and the others answer all the same."""

    def __init__(self, hosts: FleetHosts, ask: Asker, view: LiveView, code: CodeReader) -> None:
        self._hosts = hosts
        self._ask = ask
        self._view = view
        self._code = code

    async def look(self) -> Documents:
        """The status of all workers: live here, as last reported elsewhere."""
        return [*await self._view.documents(), *self._hosts.workers()]

    async def detailed(self) -> Documents:
        """The same with the commit, memory and CPU time of each, where its host answers in time."""
        own, usage = await asyncio.gather(self._view.detailed_documents(), self._usage_elsewhere())
        return [*own, *({**worker, **usage.get(worker["id"], {})} for worker in self._hosts.workers())]

    async def versions(self) -> dict[str, str]:
        """The commit of each worker's checkout, where it's known."""
        return {**await self._view.versions(), **await self._versions_elsewhere()}

    def facts(self) -> Facts:
        """The facts that the conditions of a target are checked against. It blocks."""
        versions = self._ask.wait(self._versions_elsewhere(), LOG_SECONDS)
        return {**self._view.facts(), **facts_of(self._hosts.workers(), versions)}

    def watched(self, worker_ids: Collection[str]) -> dict[str, WatchedWorker]:
        """Look at these workers for the watch after a code change: live here, as last reported elsewhere. It blocks."""
        found = dict(self._view.watched([each for each in worker_ids if not is_address(each)]))
        if any(map(is_address, worker_ids)):
            some = (each for each in self._hosts.workers() if each["id"] in worker_ids)
            found |= {each["id"]: watched_elsewhere(each) for each in some}
        return found

    async def _usage_elsewhere(self) -> dict[str, dict[str, Any]]:
        async def ask(host: str) -> Documents:
            try:
                found = await self._ask(host, Question.USAGE, {}, USAGE_SECONDS)
                return load_answers(host, found, lambda _, each: decode("worker", each, USAGE))
            except SupervisorError:  # silent, set aside, or of an earlier version
                return []

        names = [host.name for host in self._hosts.hosts.values() if not host.silent and host.workers]
        answers = zip(names, await asyncio.gather(*map(ask, names)), strict=True)
        return {str(Address(name, each.pop("id"))): each for name, found in answers for each in found}

    async def _versions_elsewhere(self) -> dict[str, str]:
        found: dict[str, str] = {}
        names = [host.name for host in self._hosts.hosts.values() if not host.silent and host.workers]
        answers = await asyncio.gather(
            *(self._ask(name, Question.VERSIONS, {}) for name in names), return_exceptions=True
        )
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, dict):
                known = {worker_id: commit for worker_id, commit in answer.items() if COMMIT.accepts(commit)}
                found |= {str(Address(name, worker_id)): commit for worker_id, commit in known.items()}
        return found

    async def written(self, workers: Sequence[str], count: int) -> list[WorkerLog]:
        """The newest lines that these workers wrote, in their order."""
        own, elsewhere = _parted(workers)

        async def ask(host: str, ids: list[str]) -> list[WorkerLog]:
            try:
                found = await self._ask(host, Question.LOGS, {"workers": ids, "count": count}, LOG_SECONDS)
                return load_answers(host, found, load_log)
            except SupervisorError as error:
                return [WorkerLog(str(Address(host, each)), "", problem=str(error)) for each in ids]

        parts = await asyncio.gather(
            self._view.newest_output(own, count) if own else _nothing(), *(ask(*each) for each in elsewhere.items())
        )
        logs = {log.worker_id: log for part in parts for log in part}
        return [logs[each] for each in workers if each in logs]

    async def explain(self, workers: Collection[str]) -> list[Explanation]:
        """Explain these workers, the unhealthy ones first. Of a host that doesn't answer, each worker says so."""
        own, elsewhere = _parted(workers)

        async def ask(host: str, ids: list[str]) -> list[Explanation]:
            try:
                found = await self._ask(host, Question.WHY, {"workers": ids}, WHY_SECONDS)
                return load_answers(host, found, load_explanation)
            except SupervisorError as error:
                return [unexplained(str(Address(host, each)), str(error), datetime.now(UTC)) for each in ids]

        parts = await asyncio.gather(
            self._view.explanations(own) if own else _nothing(), *(ask(*each) for each in elsewhere.items())
        )
        return sorted((each for part in parts for each in part), key=lambda each: each.fine)

    def preview(self, command: Command) -> tuple[dict[str, Any], ...]:
        """Preview a command on all its hosts at once. It blocks."""
        own, elsewhere = _parted(command.workers)
        found: list[dict[str, Any]] = []
        if own:
            found += self._code.preview(_for_workers(command, own))
        if elsewhere:
            asking = self._preview_elsewhere(command, elsewhere)
            found += self._ask.wait(asking, PREVIEW_SECONDS + 2 * MARGIN_SECONDS)
        return tuple(found)

    def commits(self, workers: Sequence[str], most: int) -> Sequence[Commit]:
        """The newest commits of these workers' checkout that can be reverted. It blocks."""
        own, elsewhere = _parted(workers)
        if own:
            return self._code.commits(own, most)
        host, ids = _one_host(elsewhere)
        found = self._ask.wait(
            self._ask(host, Question.COMMITS, {"workers": ids, "most": most}, LOG_SECONDS), LOG_SECONDS
        )
        return load_answers(host, found, lambda _, each: load_commit(each))

    def find(self, workers: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:
        """Find a commit by its hash in the checkout of these workers, with its place among the newest. It blocks."""
        own, elsewhere = _parted(workers)
        if own:
            return self._code.find(own, name, most)
        about = {"name": name, "most": most}
        for host, ids in elsewhere.items():  # the same code is on all of them, or it isn't the same commit
            asking = self._ask(host, Question.FIND, {**about, "workers": ids}, LOG_SECONDS)
            found = self._ask.wait(asking, LOG_SECONDS + MARGIN_SECONDS)
            places = load_answers(host, [found] if found else [], _load_place)
            return places[0] if places else None
        return None

    def configuration(self, own: SupervisorConfig) -> SupervisorConfig:
        """This host's configuration with the workers of all hosts, and their teams."""
        return fleet_configuration(own, self._hosts.announced())

    async def relay(self, question: str, workers: Sequence[str], count: int) -> Documents:
        """The answers of the hosts of these workers as they come, for `supervisor why` and `supervisor logs`."""
        if question not in (Question.WHY, Question.LOGS):
            raise UsageError("Only why and logs are relayed.")

        async def ask(host: str, ids: list[str]) -> dict[str, Any]:
            try:
                about = {"workers": ids, "count": count}
                return {"host": host, "answer": await self._ask(host, Question(question), about, LOG_SECONDS)}
            except SupervisorError as error:
                return {"host": host, "error": str(error)}

        return list(await asyncio.gather(*(ask(*each) for each in by_host(workers).items())))

    def last_lines(self, address: str, count: int) -> Sequence[str]:
        """The newest lines that a worker of another host wrote. It blocks."""
        (log,) = self._ask.wait(self.written([address], count), LOG_SECONDS + MARGIN_SECONDS)
        return log.lines

    async def _preview_elsewhere(self, command: Command, elsewhere: Mapping[str, list[str]]) -> Documents:
        async def ask(host: str, ids: list[str]) -> Documents:
            about = {
                "command": command.name,
                "target": ids[0] if len(ids) == 1 else " ".join(ids),
                "workers": ids,
                "params": dict(command.params),
                "label": command.label,
                "task_id": command.task_id,
            }
            found = await self._ask(host, Question.PREVIEW, about, PREVIEW_SECONDS + MARGIN_SECONDS)
            return load_answers(host, found, _of_host)

        parts = await asyncio.gather(*(ask(*each) for each in elsewhere.items()))
        return [each for part in parts for each in part]


def fleet_configuration(own: SupervisorConfig, announced: Mapping[str, Mapping[str, Any]]) -> SupervisorConfig:
    """The configuration of a hub with the workers of its hosts, the hosts by name, and their teams."""
    workers = dict(own.workers)
    teams = dict(own.teams)
    for address in sorted(announced, key=lambda each: address_of(each).host):
        said = announced[address]
        team = str(said.get("team") or "")
        workers[address] = _settings(address, team, enabled=bool(said.get("enabled", True)))
        if team and team not in teams:
            teams[team] = TeamSettings()
            teams[team]._name = team  # noqa: SLF001 (a key only its parent knows)
    return own.with_workers(workers, teams)


@lru_cache(MOST_KEPT)
def _settings(address: str, team: str, *, enabled: bool) -> WorkerSettings:
    """A worker of another host, as far as the hub must know it."""
    worker = WorkerSettings.model_construct(command=("elsewhere",), team=team, enabled=enabled)
    worker._id = address  # noqa: SLF001 (a key only its parent knows)
    return worker


def _of_host(host: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """A host's preview with the addresses of its workers, and a checkout that names its host."""
    checkout = document.get("checkout")
    return {
        **document,
        "host": host,
        "checkout": f"{host}:{checkout}" if checkout else checkout,
        "workers": [{**each, "id": str(Address(host, str(each["id"])))} for each in document["workers"]],
    }


def _load_place(_host: str, document: Mapping[str, Any]) -> tuple[Commit, int]:
    return load_commit(document["commit"]), int(document["place"])


def _parted(workers: Collection[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The workers of this host, and those of the others by host."""
    return [each for each in workers if not is_address(each)], by_host(filter(is_address, workers))


def _for_workers(command: Command, workers: Sequence[str]) -> Command:
    return replace(command, workers=tuple(workers))


def _one_host(elsewhere: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    if not elsewhere:
        raise HostAway("No host was named.")
    if len(elsewhere) > 1:
        raise UsageError("Choose workers of one host: each host has a checkout of its own.")
    return next(iter(elsewhere.items()))


async def _nothing() -> list[Any]:
    return []
