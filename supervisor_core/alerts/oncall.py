"""Who is on call, by the sources in the configuration: an address or a program that lists email addresses or user ids.

Anything but a whole, readable answer counts as none, and then the fallback of the source does. An answer is remembered
for as long as the source says, a failure for a minute.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from supervisor_core.alerts.outside.transport import status_words
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import to_text
from supervisor_core.config.fields import ON_CALL, OnCallSource
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host import web
from supervisor_core.host.programs import run_command
from supervisor_core.host.web import NoHttpResponse

MOST_BYTES = 64 * 1024
MOST_PEOPLE = 50
FAILED_SECONDS = 60.0
"""The time until a source that failed is asked again."""

AT_ONCE = 4
"""Questions that may hang at the same time."""

PERSON = re.compile(r"[UW][A-Z0-9]{1,30}|[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
"""A Slack user id, or an email address."""

FALLBACK = "fallback"

log = logging.getLogger(__name__)


class OnCallError(Exception):
    """A source gave no answer that counts; the message says why."""


@dataclass(frozen=True, slots=True)
class OnCallAnswer:
    """The people on call, how that is known, and when it was found out."""

    source: OnCallSource
    people: tuple[str, ...]
    """Email addresses and user ids."""
    at: datetime
    problem: str = ""
    """Why the fallback counts; empty for an answer of the source itself."""

    def as_json(self) -> dict[str, Any]:
        origin = FALLBACK if self.problem else "source"
        told = {"source": self.source.shown, "from": origin, "people": list(self.people), "at": to_text(self.at)}
        return {**told, "problem": self.problem} if self.problem else told

    def in_words(self) -> str:
        whom = ", ".join(self.people) or "nobody"
        if self.problem:
            return f"{whom} (fallback: {self.source.shown} {self.problem})"
        return f"{whom} (from {self.source.shown})"


def on_call_sources(config: SupervisorConfig) -> Iterator[tuple[OnCallSource, str]]:
    access = config.slack.access
    lists = [(f"alerts.escalation[{place}].to", step.to) for place, step in enumerate(config.alerts.escalation)]
    lists.append(("slack.access.approvers", access.approvers))
    lists += [(f"teams.{name}.approvers", team.approvers) for name, team in config.teams.items()]
    for key, people in lists:
        yield from ((who, key) for who in people if isinstance(who, OnCallSource))


class OnCallDirectory:
    """Asks the sources. Safe for any thread; each question blocks no longer than its source allows."""

    def __init__(self, config: Callable[[], SupervisorConfig], clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._threads = DaemonThreads("oncall", AT_ONCE)
        self._known: dict[str, tuple[float, OnCallAnswer]] = {}
        """By the source's id; the time until which it counts. A source is in the configuration, so they are few."""
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def source(self, source_id: str) -> OnCallSource | None:
        """The source with this id, if the configuration still has it."""
        return next((each for each, _ in on_call_sources(self._config()) if each == source_id), None)

    def ask(self, source: OnCallSource) -> OnCallAnswer:
        """Who is on call now. Several who ask at the same time share one question."""
        with self._turns[source]:
            known = self._known.get(source)
            if known and self._clock() < known[0]:
                return known[1]
            settings, config, now = source.settings, self._config(), datetime.now(UTC)
            seconds = settings.cache_minutes * 60
            read = _read_url if settings.url else _read_program
            try:
                text = self._threads.submit(read, config, source).result(settings.timeout_seconds)
                answer = OnCallAnswer(source, parse_people(text), now)
            except (FutureTimeout, OnCallError) as error:
                late = f"didn't answer within {settings.timeout_seconds:g} s"
                problem = late if isinstance(error, FutureTimeout) else str(error)
                log.warning("who is on call can't be read: %s %s; using the fallback", source.shown, problem)
                answer = OnCallAnswer(source, settings.fallback, now, problem)
                seconds = min(FAILED_SECONDS, seconds)
            self._known[source] = self._clock() + seconds, answer
            return answer


def _read_url(config: SupervisorConfig, source: OnCallSource) -> str:
    token = source.settings.secret.get_secret_value()
    headers = {"Accept": "application/json, text/plain", **({"Authorization": f"Bearer {token}"} if token else {})}
    url = source.settings.url.get_secret_value()
    try:
        answer = web.send_request(config.network, "GET", url, headers=headers, excerpt=MOST_BYTES + 1)
    except NoHttpResponse as error:
        raise OnCallError(f"is unreachable: {error}") from None
    if answer.status != HTTPStatus.OK:
        raise OnCallError(f"responded {status_words(answer.status)}")
    if len(answer.excerpt.encode()) > MOST_BYTES:
        raise OnCallError("answered with too much text")
    return answer.excerpt


def _read_program(config: SupervisorConfig, source: OnCallSource) -> str:
    said = source.settings
    try:
        ran = run_command(
            said.command,
            cwd=config.path.parent,
            env=config.safe_environment,
            timeout=said.timeout_seconds,
            keep_bytes=MOST_BYTES,
        )
    except (SupervisorError, OSError) as error:
        raise OnCallError(f"can't be started: {one_line(str(error), 200)}") from None
    if ran.timed_out:
        raise OnCallError(f"didn't end within {said.timeout_seconds:g} s")
    if not ran.ok:
        raise OnCallError(f"exited (code {ran.exit_code})")
    if ran.truncated:
        raise OnCallError("answered with too much text")
    return ran.output


def parse_people(text: str) -> tuple[str, ...]:
    """The people in an answer, a JSON list or lines; `OnCallError` unless every one of them is readable."""
    if text.lstrip().startswith(("[", "{")):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise OnCallError("answered with invalid JSON") from None
    else:
        found = [line.strip() for line in text.splitlines() if line.strip()]
    if not isinstance(found, list) or not all(isinstance(each, str) and PERSON.fullmatch(each) for each in found):
        raise OnCallError("answered with something else than email addresses and user ids")
    people = tuple(dict.fromkeys(found))
    if not people:
        raise OnCallError("names nobody")
    if len(people) > MOST_PEOPLE:
        raise OnCallError(f"names more than {MOST_PEOPLE} people")
    return people


def is_source(who: str) -> bool:
    return who.startswith(ON_CALL)
