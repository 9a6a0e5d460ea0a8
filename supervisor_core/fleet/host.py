"""A host's side of its fleet: it says that it's there, takes the hub's commands, and answers the hub's questions.

A command is checked, filed in this host's ledger, and only then acknowledged. An answer changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, UsageError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import BEAT_SECONDS, Blocking, Service, wait_until
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text, to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.fleet import rows
from supervisor_core.fleet.keys import (
    QUESTION,
    CommandMessage,
    InvalidMessage,
    KeyPair,
    UnfollowableMessage,
    read_command,
    read_signed,
)
from supervisor_core.fleet.questions import PresenceMessage, Question, dump_commit, dump_explanation, reading_document
from supervisor_core.fleet.reports import USAGE
from supervisor_core.fleet.rows import HUB_ID, REFUSED, Position
from supervisor_core.fleet.transport.connection import FleetConnection, FleetMessage
from supervisor_core.fleet.transport.subjects import COMMANDS, ask_subject, host_inbox, presence_subject
from supervisor_core.intake.filing import file_jobs, log_received
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import START_BEFORE, Job
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import record, take
from supervisor_core.storage.store import Ledger
from supervisor_core.version import __version__
from supervisor_core.workers.conditions import (
    HOST_PARTS,
    WORKER,
    Reading,
    Target,
    TargetReading,
    read_condition,
)
from supervisor_core.workers.status import WorkerStatus

if TYPE_CHECKING:
    from supervisor_core.daemon.app import Application
    from supervisor_core.fleet.hosts import Hosts

FOLD_SECONDS = 60.0
"""A flood of refused messages is one audit row in this time."""

MOST_CHARACTERS = 900_000
"""Of an answer: a message of NATS holds 1 MB."""

ANSWERS_AT_ONCE = 16
LONGEST_AGO = timedelta(minutes=5)
MOST_QUESTIONS = 20_000
"""The questions of that time that are known, so that none is answered twice."""

RETRY_SECONDS = 1.0
PULL_SECONDS = 30.0
MOST_MESSAGES = 1000
"""The newest messages whose place in their stream is known."""

SETTLE_SECONDS = 0.02
"""The pause before a change is announced: changes come in bursts."""

log = logging.getLogger(__name__)


class RefusedMessages:
    """Records refused messages in this host's audit trail; used on the event loop alone. Those of one command each have
    a row, because the hub signed it and waits for its end; others are folded into a row a minute, with their number."""

    def __init__(self, ledger: Ledger, blocking: Blocking) -> None:
        self._ledger = ledger
        self._blocking = blocking
        self._count = 0
        self._recorded_at = -math.inf

    async def note(self, why: str, task_id: str = "") -> None:
        """Record a refusal, or count it. `LedgerUnavailable` if it must be recorded and can't."""
        now, host = time.monotonic(), self._ledger.supervisor_id
        if not task_id:
            self._count += 1
            if now < self._recorded_at + FOLD_SECONDS:
                return
        log.error("a message of the fleet is refused: %s", why, extra=LogEvent.FLEET_REFUSED.extra(error=why))
        details = {"door": "fleet", "error": why, "count": 1 if task_id else self._count}
        entry = AuditEntry(
            HUB_ID, REFUSED, host, "failure", target_type="supervisor", task_id=task_id or None, details=details
        )
        await self._blocking(
            self._ledger.write, lambda connection: record(connection, host, entry, (), datetime.now(UTC))
        )
        if not task_id:
            self._count, self._recorded_at = 0, now


class QuestionAnswers(Service):
    """Stays connected, and answers each question of the hub; any other message gets no answer."""

    name = "fleet_link"

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        connection: FleetConnection,
        hosts: Hosts,
        hub_key: str,
        snapshot: Callable[[], Awaitable[dict[str, Any]]],
        refusals: RefusedMessages,
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._connection = connection
        self._hosts = hosts
        self._hub_key = hub_key
        self._refusals = refusals
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._places = asyncio.Semaphore(ANSWERS_AT_ONCE)
        self._answering: set[asyncio.Task[None]] = set()
        self._answers: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            Question.ROWS: self._rows,
            Question.SNAPSHOT: lambda _: snapshot(),
            Question.PREVIEW: self._preview,
            Question.COMMITS: self._commits,
            Question.FIND: self._find,
            Question.LOGS: self._logs,
            Question.WHY: self._why,
            Question.USAGE: self._usage,
        }

    def problem(self) -> str:
        return self._connection.problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Stay connected until asked to stop. The workers don't depend on it."""
        await self._connection.subscribe(ask_subject(self._ledger.supervisor_id), self._take)
        self._connection.start()
        while not stopping.is_set():
            self.pulse.beat(within=BEAT_SECONDS)
            await wait_until(None, stopping, BEAT_SECONDS)

    async def shut_down(self) -> None:
        for task in self._answering:
            task.cancel()
        await self._connection.close()

    async def _take(self, message: FleetMessage) -> None:
        """Answer in a task of its own: a preview takes seconds, and a status mustn't wait for it."""

        async def respond() -> None:
            answer = await self._answer(message.data)
            if answer is not None:
                await message.respond(answer.encode())

        task = asyncio.create_task(respond())
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, data: bytes) -> str | None:
        """The answer to a question. Its errors are answers, too. Who isn't the hub gets none."""
        try:
            asked = read_signed(QUESTION, data, self._ledger.supervisor_id, self._hub_key)
            self._check_new(asked)
        except InvalidMessage as error:
            with contextlib.suppress(LedgerUnavailable):  # it's counted, and recorded later
                await self._refusals.note(str(error))
            if not isinstance(error, UnfollowableMessage):
                return None
            return canonical_json({"error": str(error), "retryable": error.retryable})
        try:
            answering = self._answers.get(str(asked.get("question")))
            if answering is None:
                raise UsageError(f"This version doesn't know the question {asked.get('question')!a}.")
            async with self._places:
                answer = await answering(asked["about"])
            text = canonical_json({"answer": answer})
            if len(text) > MOST_CHARACTERS:
                raise UsageError("The answer is too long for a message.")
        except SupervisorError as error:
            return canonical_json({"error": str(error), "retryable": error.retryable})
        except Exception as error:  # the edge: the hub is told, and the host goes on
            log.exception("a question of the hub couldn't be answered")
            return canonical_json({"error": describe(error), "retryable": False})
        return text

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
        while len(self._asked) > MOST_QUESTIONS:
            self._asked.popitem(last=False)

    async def _rows(self, about: Mapping[str, Any]) -> dict[str, Any]:
        position, host = Position.of(about), self._ledger.supervisor_id
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
        return list(await self._blocking(self._hosts.preview, command))

    async def _commits(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        commits = await self._blocking(self._hosts.commits, list(about["workers"]), int(about["most"]))
        return [dump_commit(commit) for commit in commits]

    async def _find(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        match = await self._blocking(
            self._hosts.find_commit, list(about["workers"]), str(about["name"]), int(about["most"])
        )
        return [{"commit": dump_commit(match[0]), "place": match[1]}] if match else []

    async def _logs(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [asdict(log) for log in await self._hosts.newest_output(list(about["workers"]), int(about["count"]))]

    async def _why(self, about: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [dump_explanation(reason) for reason in await self._hosts.explain(list(about["workers"]))]

    async def _usage(self, _about: Mapping[str, Any]) -> list[dict[str, Any]]:
        documents = await self._hosts.detailed_statuses()
        return [{name: document[name] for name in USAGE} for document in documents]


class FleetCommands(Service):
    name = "fleet_commands"

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        connection: FleetConnection,
        hub_key: str,
        filed: Callable[[Collection[str]], None],
        knows: Callable[[str], bool],
        refusals: RefusedMessages,
    ) -> None:
        """`filed`: called on the event loop with the workers that have a new job. `knows`: whether a worker exists."""
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._connection = connection
        self._hub_key = hub_key
        self._filed = filed
        self._knows = knows
        self._refusals = refusals
        self._places: OrderedDict[bytes, int] = OrderedDict()
        self._problem = ""

    def problem(self) -> str:
        return self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        host = self._ledger.supervisor_id
        while not stopping.is_set():
            self.pulse.beat(within=PULL_SECONDS)
            seconds = RETRY_SECONDS if self._problem else PULL_SECONDS  # a pull that finds nothing ends a problem, too
            pulling = asyncio.ensure_future(self._connection.pull(COMMANDS, host, seconds=seconds))
            if await wait_until(pulling, stopping):
                pulling.cancel()
                await asyncio.gather(pulling, return_exceptions=True)
                return
            try:
                for message in pulling.result():
                    await self._follow(message)
                self._problem = ""
            except SupervisorError as error:  # what isn't acknowledged comes again, and nothing overtakes it
                self._problem = f"the hub's commands are waiting: {error}"
                await wait_until(None, stopping, RETRY_SECONDS)

    async def _follow(self, message: FleetMessage) -> None:
        """File one command, and acknowledge it once that's on disk. What can't be followed is on record by then."""
        try:
            workers = await self._take(message)
        except SupervisorError:
            with contextlib.suppress(SupervisorError):
                await message.redeliver(RETRY_SECONDS)
            raise
        crashpoints.reach("fleet.take:after")
        if workers:
            self._filed(workers)
        await message.acknowledge()

    async def _take(self, message: FleetMessage) -> set[str]:
        """File a command; the workers that have a new job."""
        try:
            command = read_command(message.data, self._ledger.supervisor_id, self._hub_key)
        except InvalidMessage as error:
            await self._refusals.note(str(error), error.task_id if isinstance(error, UnfollowableMessage) else "")
            return set()
        crashpoints.reach("fleet.take:before")
        try:
            workers = await self._blocking(self._file, command)
        except LedgerUnavailable:
            raise
        except SupervisorError as error:
            await self._refusals.note(str(error), command.command.task_id)
            return set()
        # The server repeats a message in its place, and the hub signs one that it sends again anew.
        place = self._places.setdefault(hashlib.sha256(message.data).digest(), message.sequence)
        while len(self._places) > MOST_MESSAGES:
            self._places.popitem(last=False)
        if place != message.sequence and not workers:
            await self._refusals.note(f"The command {command.command.task_id} was sent again by somebody else.")
        return workers

    def _file(self, message: CommandMessage) -> set[str]:
        now, supervisor_id = datetime.now(UTC), self._ledger.supervisor_id
        late = now >= message.start_before
        bound = {**message.command.params, START_BEFORE: to_text(message.start_before)}
        command: Command = replace(message.command, params=bound)

        def work(connection: Connection) -> tuple[list[Job], list[Job]]:
            filed = file_jobs(
                connection, supervisor_id, command, message.door, message.filed_at, approvals=message.approvals
            )
            refused = [job for job in filed if late or not self._knows(job.worker_id)]
            for job in refused:
                words = f"{supervisor_id} has no worker {job.worker_id}."
                if late:
                    words = f"It came after {message.start_before:%H:%M:%S} UTC, when it had to be started by."
                step = jobs.refuse(job, Outcome.failed(f"{words} Nothing was done."), now)
                take(connection, supervisor_id, step, now)
            return filed, refused

        filed, refused = self._ledger.write(work)
        for job in filed:
            log_received(job)
        return {job.worker_id for job in filed} - {job.worker_id for job in refused}


class PresenceSpeaker(Service):
    """Announces this host every few seconds, and at once when its ledger or a worker has something new."""

    name = "fleet_presence"

    def __init__(
        self,
        config: Callable[[], SupervisorConfig],
        ledger: Ledger,
        blocking: Blocking,
        connection: FleetConnection,
        hosts: Hosts,
    ) -> None:
        super().__init__()
        self._config = config
        self._ledger = ledger
        self._blocking = blocking
        self._connection = connection
        self._hosts = hosts
        self._host = ledger.supervisor_id
        self._every = config().fleet.presence_seconds
        self._life = uuid.uuid4().hex
        self._ledger_id = ""
        self._number = 0
        self._readings: dict[str, Reading] = {}
        self._woken = asyncio.Event()
        self._looking = asyncio.Lock()
        self._newest: dict[str, Any] = {}
        self._compared: object = None

    def wake(self) -> None:
        """Something has changed; on the event loop."""
        self._woken.set()

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        grace = timedelta(seconds=self._config().alerts.start_grace_seconds)
        for status in statuses:
            reading = read_condition(status, grace)
            if reading is not None:
                self._readings[status.worker_id] = reading
        self.wake()

    async def initialise(self) -> None:
        origin = await self._blocking(self._ledger.write, lambda connection: rows.origin_of(connection, self._host))
        self._ledger_id = origin.ledger_id
        self.wake()

    async def run(self, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake)):
            while not stopping.is_set():
                self.pulse.beat(within=self._every)
                if self._woken.is_set():
                    self._woken.clear()
                    await self._look()
                with contextlib.suppress(SupervisorError):  # not connected: the next time says it
                    await self._speak()
                await wait_until(self._woken, stopping, self._every)
                await wait_until(None, stopping, SETTLE_SECONDS)

    async def snapshot(self) -> dict[str, Any]:
        if not self._newest:
            await self._look()
        return self._newest

    async def _speak(self) -> None:
        newest = await self._blocking(self._ledger.read, lambda connection: rows.newest_rows(connection, self._host))
        presence = PresenceMessage(
            self._host,
            datetime.now(UTC),
            self._ledger_id,
            newest._asdict(),
            self._number,
            self._life,
            __version__,
            self._every,
        )
        await self._connection.publish(presence_subject(self._host), presence.encode())

    async def _look(self) -> None:
        """Look at the workers; a look that differs gets the next number."""
        async with self._looking:
            documents = await self._hosts.statuses()
            conditions = await self._blocking(
                self._ledger.read, lambda connection: flips.current_host_conditions(connection, self._host)
            )
            known = self._config().workers
            workers = []
            for document in documents:
                settings = known.get(str(document["id"]))
                about = {"enabled": settings.enabled, "team": settings.team} if settings else {"enabled": False}
                workers.append({**document, **about})
            seen = [
                TargetReading(Target(WORKER, name), self._readings[name]) for name in self._readings if name in known
            ]
            for target, part in conditions.items():
                if target.kind in HOST_PARTS:
                    seen.append(TargetReading(target, Reading(part.condition, part.reason, part.since)))
            readings = [reading_document(reading) for reading in seen]
            steady = [{name: value for name, value in each.items() if name != "last_health_at"} for each in workers]
            if (steady, readings) == self._compared:
                return
            self._compared = steady, readings
            self._number += 1
            self._newest = {"life": self._life, "number": self._number, "workers": workers, "readings": readings}


class HostServices:
    def __init__(self, daemon: Application) -> None:
        context, ledger, blocking = daemon.context, daemon.context.ledger, daemon.blocking
        config, name = context.host.config, ledger.supervisor_id
        settings, key = config.fleet, KeyPair.read(config.resolve(str(config.fleet.credentials)))
        url = settings.url.get_secret_value()
        connection = FleetConnection(url, key, name=name, inbox=host_inbox(name), ca=settings.ca)
        self.presence = PresenceSpeaker(lambda: context.host.config, ledger, blocking, connection, daemon.local)
        refusals, snapshot = RefusedMessages(ledger, blocking), self.presence.snapshot
        answers = QuestionAnswers(ledger, blocking, connection, daemon.local, settings.hub_key, snapshot, refusals)
        wake = daemon.reconciler.wake
        commands = FleetCommands(
            ledger,
            blocking,
            connection,
            settings.hub_key,
            wake,
            lambda worker_id: worker_id in context.host.config.workers,
            refusals,
        )
        self.services: tuple[Service, ...] = (answers, self.presence, commands)
