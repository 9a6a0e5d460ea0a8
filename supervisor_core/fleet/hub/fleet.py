"""The whole fleet as the hub's other parts see it: this host's workers by their ids, all others by their addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from supervisor_core.code.change_plan import Commit
from supervisor_core.code.planning import PREVIEW_SECONDS
from supervisor_core.code.watch.rules import WatchedWorker, watched_elsewhere
from supervisor_core.commands.addresses import Address, address_of, by_host, is_address
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.conditions import Facts, facts_of
from supervisor_core.commands.phrases import WorkerName
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import TeamSettings, WorkerSettings
from supervisor_core.diagnosis.why.model import Cause, Explanation, Finding
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.fleet.hosts import Documents, Hosts
from supervisor_core.fleet.hub.hosts import FleetHosts
from supervisor_core.fleet.questions import (
    Asker,
    HostAway,
    Question,
    load_answers,
    load_commit,
    load_explanation,
    load_log,
)
from supervisor_core.fleet.reports import USAGE, decode

if TYPE_CHECKING:
    from supervisor_core.fleet.hub.dispatch import CommandDispatcher

T = TypeVar("T")

MARGIN_SECONDS = 5.0
"""The way to a host and back, beside the time that the answer takes there."""

MOST_KEPT = 20_000
"""Workers whose settings are kept: to make those of 10,000 takes a second, and one of them changes at a time."""

ANSWER_SECONDS = 15.0
USAGE_SECONDS = 1.0
"""Whoever looks at the status gives up after 2 s."""


class Fleet(Hosts):
    """Answers about all workers. A host that is away is named in the answer, and the others answer all the same."""

    def __init__(self, hosts: FleetHosts, ask: Asker, local: Hosts) -> None:
        self._hosts = hosts
        self._ask = ask
        self._local = local
        self.dispatcher: CommandDispatcher | None = None
        self.follow_hosts()

    @property
    def config(self) -> SupervisorConfig:
        return self._config

    def follow_hosts(self) -> None:
        """The own configuration or the workers of another host have changed."""
        self._config = fleet_configuration(self._local.config, self._hosts.announced())

    def wake(self, worker_ids: Collection[str] | None = None) -> None:
        elsewhere = {worker_id for worker_id in worker_ids or () if is_address(worker_id)}
        if worker_ids is None:
            self._local.wake()
        elif own := set(worker_ids) - elsewhere:
            self._local.wake(own)
        if self.dispatcher is not None and (worker_ids is None or elsewhere):
            self.dispatcher.wake()

    async def set_monitoring(self, issuer: Issuer, *, paused: bool) -> str:
        return await self._local.set_monitoring(issuer, paused=paused)

    async def statuses(self) -> Documents:
        return [*await self._local.statuses(), *self._hosts.workers()]

    async def detailed_statuses(self) -> Documents:
        """Without the figures of a host that doesn't answer in time."""
        own, usage = await asyncio.gather(self._local.detailed_statuses(), self._usage_elsewhere(USAGE_SECONDS))
        return [*own, *({**worker, **usage.get(worker["id"], {})} for worker in self._hosts.workers())]

    async def versions(self) -> dict[str, str]:
        usage = await self._usage_elsewhere(ANSWER_SECONDS)
        elsewhere = {address: each["commit"] for address, each in usage.items() if each["commit"]}
        return {**await self._local.versions(), **elsewhere}

    def facts(self) -> Facts:
        usage = self._ask.wait(self._usage_elsewhere(ANSWER_SECONDS), ANSWER_SECONDS + MARGIN_SECONDS)
        versions = {address: each["commit"] for address, each in usage.items() if each["commit"]}
        return {**self._local.facts(), **facts_of(self._hosts.workers(), versions)}

    def watched(self, worker_ids: Collection[str]) -> dict[str, WatchedWorker]:
        """Live for this host, as last reported for the others."""
        found = dict(self._local.watched([each for each in worker_ids if not is_address(each)]))
        if any(map(is_address, worker_ids)):
            some = (each for each in self._hosts.workers() if each["id"] in worker_ids)
            found |= {each["id"]: watched_elsewhere(each) for each in some}
        return found

    async def _ask_each(
        self,
        question: Question,
        workers: Mapping[str, list[str]],
        load: Callable[[str, Mapping[str, Any]], T],
        seconds: float,
        **about: Any,  # noqa: ANN401 (JSON)
    ) -> list[tuple[str, list[T] | SupervisorError]]:
        """Ask each of these hosts about its workers at once: its values, or why there are none."""

        async def ask(host: str, ids: list[str]) -> tuple[str, list[T] | SupervisorError]:
            try:
                answer, _ = await self._ask(host, question, {**about, "workers": ids}, seconds)
                return host, load_answers(host, answer, load)
            except SupervisorError as error:
                return host, error

        return list(await asyncio.gather(*(ask(host, ids) for host, ids in workers.items())))

    async def _usage_elsewhere(self, seconds: float) -> dict[str, Mapping[str, Any]]:
        """The commit, memory and CPU time of the workers of other hosts. Who doesn't answer is left out."""
        hosts = {host.name: list[str]() for host in self._hosts.hosts.values() if not host.silent and host.workers}
        answers = await self._ask_each(Question.USAGE, hosts, lambda _, each: decode("worker", each, USAGE), seconds)
        return {
            str(Address(host, each["id"])): {name: value for name, value in each.items() if name != "id"}
            for host, found in answers
            if not isinstance(found, SupervisorError)
            for each in found
        }

    async def newest_output(self, worker_ids: Sequence[str], count: int) -> list[WorkerLog]:
        own, elsewhere = _split_by_host(worker_ids)
        asking = asyncio.ensure_future(self._ask_each(Question.LOGS, elsewhere, load_log, ANSWER_SECONDS, count=count))
        logs = await self._local.newest_output(own, count) if own else []
        for host, answer in await asking:
            if isinstance(answer, SupervisorError):
                problem = str(answer)
                logs += [WorkerLog(str(Address(host, each)), "", problem=problem) for each in elsewhere[host]]
            else:
                logs += answer
        by_worker = {log.worker_id: log for log in logs}
        return [by_worker[worker_id] for worker_id in worker_ids if worker_id in by_worker]

    async def explain(self, worker_ids: Collection[str]) -> list[Explanation]:
        """Of a host that doesn't answer, each worker says so."""
        own, elsewhere = _split_by_host(worker_ids)
        asking = asyncio.ensure_future(self._ask_each(Question.WHY, elsewhere, load_explanation, ANSWER_SECONDS))
        explanations = list(await self._local.explain(own)) if own else []
        for host, answer in await asking:
            if isinstance(answer, SupervisorError):
                problem, now = str(answer), datetime.now(UTC)
                for worker_id in elsewhere[host]:
                    address = str(Address(host, worker_id))
                    finding = Finding(Cause.NOT_KNOWN, (WorkerName(address), f" can't be explained: {problem}"))
                    explanations.append(Explanation(address, now, fine=False, found=finding))
            else:
                explanations += answer
        return sorted(explanations, key=lambda each: each.fine)

    def preview(self, command: Command) -> tuple[dict[str, Any], ...]:
        own, elsewhere = _split_by_host(command.workers)
        previews: list[dict[str, Any]] = []
        if own:
            previews += self._local.preview(replace(command, workers=tuple(own)))
        if elsewhere:
            params, seconds = dict(command.params), PREVIEW_SECONDS + MARGIN_SECONDS
            about = {"command": command.name, "params": params, "label": command.label, "task_id": command.task_id}
            asking = self._ask_each(Question.PREVIEW, elsewhere, _load_preview, seconds, **about)
            for _, found in self._ask.wait(asking, seconds + MARGIN_SECONDS):
                if isinstance(found, SupervisorError):
                    raise found
                previews += found
        return tuple(previews)

    def commits(self, worker_ids: Sequence[str], most: int) -> Sequence[Commit]:
        own, elsewhere = _split_by_host(worker_ids)
        if own:
            return self._local.commits(own, most)
        if len(elsewhere) > 1:
            raise UsageError("Choose workers of one host: each host has a checkout of its own.")
        return self._ask_first(Question.COMMITS, elsewhere, lambda _, each: load_commit(each), most=most)

    def find_commit(self, worker_ids: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:

        def load_place(_host: str, document: Mapping[str, Any]) -> tuple[Commit, int]:
            return load_commit(document["commit"]), int(document["place"])

        own, elsewhere = _split_by_host(worker_ids)
        if own:
            return self._local.find_commit(own, name, most)
        # The same code is on all of them, or it isn't the same commit.
        found = self._ask_first(Question.FIND, elsewhere, load_place, name=name, most=most) if elsewhere else []
        return found[0] if found else None

    def _ask_first(
        self,
        question: Question,
        elsewhere: Mapping[str, list[str]],
        load: Callable[[str, Mapping[str, Any]], T],
        **about: Any,  # noqa: ANN401 (JSON)
    ) -> list[T]:
        """The values of the first of these hosts; its error if it has none. It blocks."""
        if not elsewhere:
            raise HostAway("No host was named.")
        first = dict([next(iter(elsewhere.items()))])
        asking = self._ask_each(question, first, load, ANSWER_SECONDS, **about)
        ((_, found),) = self._ask.wait(asking, ANSWER_SECONDS + MARGIN_SECONDS)
        if isinstance(found, SupervisorError):
            raise found
        return found

    async def relay(self, question: str, workers: Sequence[str], count: int) -> Documents:
        """The answers of the hosts of these workers as they come, for `supervisor why` and `supervisor logs`."""
        if question not in (Question.WHY, Question.LOGS):
            raise UsageError("Only why and logs are relayed.")
        hosts = by_host(workers)
        found = await self._ask_each(Question(question), hosts, lambda _, each: each, ANSWER_SECONDS, count=count)
        return [
            {"host": host, "error": str(answer)}
            if isinstance(answer, SupervisorError)
            else {"host": host, "answer": answer}
            for host, answer in found
        ]

    def last_lines(self, worker_id: str, count: int) -> Sequence[str]:
        (log,) = self._ask.wait(self.newest_output([worker_id], count), ANSWER_SECONDS + MARGIN_SECONDS)
        return log.lines


def fleet_configuration(own: SupervisorConfig, announced: Mapping[str, Mapping[str, Any]]) -> SupervisorConfig:
    workers = dict(own.workers)
    teams = dict(own.teams)
    for address in sorted(announced, key=lambda each: address_of(each).host):
        said = announced[address]
        team = str(said.get("team") or "")
        workers[address] = _settings(address, team, enabled=bool(said.get("enabled", True)))
        if team and team not in teams:
            teams[team] = TeamSettings(name=team)
    return own.with_workers(workers, teams)


@lru_cache(MOST_KEPT)
def _settings(address: str, team: str, *, enabled: bool) -> WorkerSettings:
    return WorkerSettings(command=("elsewhere",), team=team, enabled=enabled, id=address)


def _load_preview(host: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """A host's preview with the addresses of its workers, and a checkout that names its host."""
    checkout = document.get("checkout")
    return {
        **document,
        "host": host,
        "checkout": f"{host}:{checkout}" if checkout else checkout,
        "workers": [{**each, "id": str(Address(host, str(each["id"])))} for each in document["workers"]],
    }


def _split_by_host(workers: Collection[str]) -> tuple[list[str], dict[str, list[str]]]:
    return [each for each in workers if not is_address(each)], by_host(filter(is_address, workers))
