"""Delivers what happens to the app: to its request URL where it has one, else over Socket Mode."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlencode, urlsplit

import aiohttp

from slack_playground.socket_mode.sockets import ACKED, NOBODY, TIMEOUT, Outcome, Sockets
from slack_playground.values import LOCAL, Json, PlaygroundError
from slack_playground.world.world import World

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
AGENT = "Slackbot 1.0 (+https://api.slack.com/robots)"
NO_RETRY = "X-Slack-No-Retry"
LOOKS_EVERY = 0.1  # seconds


class Delivery:
    """Sends one envelope the way that the app takes it, and waits for its answer."""

    def __init__(self, world: World, sockets: Sockets, request_url: str = "") -> None:
        self._world, self._sockets = world, sockets
        self._session: aiohttp.ClientSession | None = None
        self._answered = False
        self._over_sockets = world.connections
        self.request_url = ""
        if request_url:
            self.post_to(request_url)

    def post_to(self, request_url: str) -> None:
        """Post to this address from now on; nothing for Socket Mode again."""
        parts = urlsplit(request_url)
        if request_url and (parts.scheme not in ("http", "https") or parts.hostname not in LOCAL):
            example = "http://127.0.0.1:3000/slack/events"
            words = f"The request URL must be on this machine, such as {example}, not {request_url!r}."
            raise PlaygroundError("bad_request_url", words)
        self.request_url, self._answered = request_url, False
        self._world.connections = self._count if request_url else self._over_sockets

    def _count(self) -> int:
        return int(self._answered)

    async def reachable(self, seconds: float) -> bool:
        """True once the app answers at its request URL; asks it the question that Slack asks when the URL is set."""
        end = time.monotonic() + seconds
        challenge = uuid.uuid4().hex
        question = {"type": "url_verification", "token": "playground", "challenge": challenge}
        while time.monotonic() < end:
            answer = await self._post(json.dumps(question), JSON, {})
            if answer is not None and answer[0]:
                if answer[0] != HTTPStatus.OK or challenge not in answer[1]:
                    self._world.warn(
                        f"{self.request_url} didn't echo the challenge; Slack wouldn't accept it for events."
                    )
                return True
            await asyncio.sleep(LOOKS_EVERY)
        return False

    async def deliver(
        self, kind: str, payload: Json, *, answers: bool, retry: tuple[int, str] | None = None
    ) -> Outcome:
        """Send one envelope, and wait for its ack."""
        if not self.request_url:
            return await self._sockets.deliver(kind, payload, answers=answers, retry=retry)
        envelope_id, headers = str(uuid.uuid4()), {}
        words: Json = {"envelope_id": envelope_id, "type": kind, "payload": payload, "url": self.request_url}
        if retry:
            headers = {"X-Slack-Retry-Num": str(retry[0]), "X-Slack-Retry-Reason": retry[1]}
            words |= {"retry_attempt": retry[0], "retry_reason": retry[1]}
        self._world.journal.write("envelope", connection=0, **words)
        body, content_type = _body(kind, payload)
        started = time.monotonic()
        answer = await self._post(body, content_type, headers)
        ms = round((time.monotonic() - started) * 1000)
        if answer is None or not _accepted(kind, answer[0]):
            outcome = TIMEOUT if answer is None else NOBODY
            reason = "timeout" if answer is None else f"status {answer[0]}" if answer[0] else "no_connection"
            self._world.journal.write("no_ack", envelope_id=envelope_id, type=kind, reason=reason)
            why = "http_timeout" if answer is None else "http_error" if answer[0] else "connection_failed"
            return Outcome(outcome, envelope_id, ms, reason=why, final=answer is not None and answer[2])
        given = _read(answer[1]) if answers else None
        self._world.journal.write("ack", envelope_id=envelope_id, connection=0, ms=ms, payload=given, late=False)
        return Outcome(ACKED, envelope_id, ms, given)

    async def _post(self, body: str, content_type: str, headers: Mapping[str, str]) -> tuple[int, str, bool] | None:
        """Status and body of the app's answer, and whether it wants no retry.

        The status is 0 where nobody is there; None instead of an answer that takes too long.
        """
        stamp = str(int(self._world.clock.now()))
        signed = {"Content-Type": content_type, "User-Agent": AGENT, "X-Slack-Request-Timestamp": stamp, **headers}
        signed["X-Slack-Signature"] = signature(self._world.signing_secret, stamp, body)
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None))
        before = self._answered
        try:
            async with (
                asyncio.timeout(self._world.timings.ack),
                self._session.post(self.request_url, data=body.encode(), headers=signed) as response,
            ):
                answer = response.status, await response.text(), response.headers.get(NO_RETRY) == "1"
        except TimeoutError:
            return None
        except aiohttp.ClientError:
            answer = 0, "", False
        self._answered = bool(answer[0])
        if self._answered is not before:
            self._world.tell_app()
        return answer

    async def close(self) -> None:
        """Close the connections to the app."""
        if self._session is not None:
            await self._session.close()


def signature(secret: str, stamp: str, body: str) -> str:
    """The signature over a request."""
    return "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()


def _accepted(kind: str, status: int) -> bool:
    """An event is accepted with any status of success, everything else with 200 alone."""
    return status == HTTPStatus.OK or (kind == "events_api" and 200 <= status < 300)


def _body(kind: str, payload: Json) -> tuple[str, str]:
    if kind == "events_api":
        return json.dumps(payload), JSON
    if kind == "slash_commands":
        return urlencode({key: value for key, value in payload.items() if value is not None}), FORM
    return urlencode({"payload": json.dumps(payload)}), FORM


def _read(body: str) -> Json | None:
    """The answer in the body: an object, or plain text for a command."""
    if not body.strip():
        return None
    try:
        given = json.loads(body)
    except json.JSONDecodeError:
        return {"text": body}
    return given if isinstance(given, dict) else {"text": body}
