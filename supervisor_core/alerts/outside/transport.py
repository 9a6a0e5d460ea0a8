"""One attempt to send a request about an alert, and what the answer means."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from supervisor_core.alerts.outside.formats import HttpCall
from supervisor_core.common.service import Blocking
from supervisor_core.host import web
from supervisor_core.host.network import Network
from supervisor_core.host.web import NoHttpResponse

if TYPE_CHECKING:
    from supervisor_core.alerts.outside.notify import Notification

LONGEST_SECONDS = 20.0
"""For one attempt, whatever the receiver does: one that sends a byte now and then never runs into the doors' own
limits."""

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 900.0
LONGEST_ASKED_SECONDS = 3600.0
"""The longest accepted Retry-After."""

_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class SendVerdict(Enum):
    TAKEN = "taken"
    AGAIN = "again"
    """Trying again can help."""
    REFUSED = "refused"


class SendResult(NamedTuple):
    """A verdict, the answer in words, and how long the receiver asked us to wait, where it did."""

    verdict: SendVerdict
    words: str = ""
    seconds: float | None = None
    excerpt: str = ""
    """The beginning of the answer's body, if requested."""


async def attempt(elsewhere: Blocking, network: Network, call: HttpCall | Notification, excerpt: int = 0) -> SendResult:
    """Send it once, in a thread, within the time limit."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            return await elsewhere(send, network, call, excerpt)
    except TimeoutError:
        return SendResult(SendVerdict.AGAIN, f"no complete response within {LONGEST_SECONDS:.0f} s")


def send(network: Network, call: HttpCall | Notification, excerpt: int = 0) -> SendResult:
    """Send it once; it blocks. `excerpt` is the number of bytes of the answer that a person wants to see."""
    if not isinstance(call, HttpCall):
        from supervisor_core.alerts.outside.notify import send_notification

        return send_notification(call)
    try:
        answer = web.send_request(network, "POST", call.url, call.body, call.headers, excerpt)
    except NoHttpResponse as error:
        return SendResult(SendVerdict.AGAIN, str(error))
    return judge_answer(answer.status, answer.retry_after, datetime.now(UTC))._replace(excerpt=answer.excerpt)


def judge_answer(status: int, retry_after: str, now: datetime) -> SendResult:
    words = f"responded {status_words(status)}"
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return SendResult(SendVerdict.TAKEN, words)
    if status in _TRY_AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return SendResult(SendVerdict.AGAIN, words, _asked(retry_after, now))
    return SendResult(SendVerdict.REFUSED, words)


def retry_seconds(tries: int) -> float:
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(tries, 20))


def status_words(status: int) -> str:
    """`404 Not Found`, with the standard phrase, because the server's own could be any text."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _asked(retry_after: str, now: datetime) -> float | None:
    """The seconds, from a number or a date; None if it's neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_ASKED_SECONDS)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST_ASKED_SECONDS)
