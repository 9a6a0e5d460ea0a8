"""The services that alerts are sent to, as far as their published interfaces say: each request is checked strictly.

Each keeps what a person would see there, by the service's own key, and refuses what the service would refuse: a wrong
type, a text that is too long, an unknown field, a missing header.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support.alerts.webhook_receiver import Received

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Refused(Exception):
    """The service's answer to a request that isn't as published."""


@dataclass
class Text:
    """A text of at most so many characters, or one of a few words."""

    most: int = 10**6
    least: int = 0
    of: tuple[str, ...] = ()
    shape: re.Pattern[str] | None = None

    def check(self, name: str, value: object) -> None:
        ensure(isinstance(value, str), f"{name} must be a string")
        assert isinstance(value, str)
        ensure(self.least <= len(value) <= self.most, f"{name} has {len(value)} characters")
        ensure(not self.of or value in self.of, f"{name} is {value}")
        ensure(self.shape is None or bool(self.shape.fullmatch(value)), f"{name} is {value}")


WHEN = Text(shape=RFC_3339)


def ensure(fine: bool, complaint: str) -> None:
    if not fine:
        raise Refused(complaint)


def check_object(value: object, required: Mapping[str, Any], optional: Mapping[str, Any], at: str = "") -> None:
    """An object with these keys, each of its kind, and no other."""
    ensure(isinstance(value, Mapping), f"{at or 'the body'} must be an object")
    assert isinstance(value, Mapping)
    for name in required:
        ensure(name in value, f"{at}{name} is missing")
    for name, each in value.items():
        kind = required.get(name, optional.get(name))
        ensure(kind is not None, f"{at}{name} is unknown")
        if isinstance(kind, Text):
            kind.check(f"{at}{name}", each)
        elif kind is not None:
            kind(f"{at}{name}", each)


def texts(most: int = 10**6, keys: re.Pattern[str] | None = None) -> Callable[[str, object], None]:
    """A map of texts, with so many characters altogether."""

    def check(name: str, value: object) -> None:
        ensure(isinstance(value, Mapping), f"{name} must be an object")
        assert isinstance(value, Mapping)
        ensure(all(isinstance(each, str) for each in value.values()), f"{name} has something that is no string")
        ensure(sum(len(key) + len(each) for key, each in value.items()) <= most, f"{name} is too long")
        ensure(keys is None or all(keys.fullmatch(key) for key in value), f"{name} has a wrong key")

    return check


@dataclass
class Service:
    """What is open, by the service's key, and what was refused."""

    secret: str = ""
    open: dict[str, Any] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    closed: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    """Deliveries that were taken, where the service knows them."""
    texts: list[str] = field(default_factory=list)
    """The lines that a person reads, in their order."""

    def __call__(self, request: Received) -> tuple[int, bytes]:
        try:
            ensure(request.headers.get("Content-Type") == "application/json", "the content type isn't JSON")
            return self.take(request, json.loads(request.body))
        except Refused as error:
            self.complaints.append(str(error))
            return self.refused(str(error))

    def refused(self, words: str) -> tuple[int, bytes]:
        return 400, json.dumps({"error": words}).encode()

    def take(self, request: Received, body: Any) -> tuple[int, bytes]:
        raise NotImplementedError

    def close(self, key: str) -> None:
        if self.open.pop(key, None) is not None:
            self.closed.append(key)


class PagerDuty(Service):
    """Events API v2: https://developer.pagerduty.com/docs/events-api-v2/trigger-events/"""

    KEYS: Mapping[str, Any] = {
        "routing_key": Text(32, 32),
        "event_action": Text(of=("trigger", "acknowledge", "resolve")),
        "dedup_key": Text(255, 1),
    }

    def take(self, request: Received, body: Any) -> tuple[int, bytes]:
        ensure(request.path == "/v2/enqueue", f"{request.path} isn't there")
        more = {"client": Text(), "client_url": Text(), "links": _list, "images": _list, "payload": self._payload}
        check_object(body, self.KEYS, more if body.get("event_action") == "trigger" else {})
        ensure(body["routing_key"] == self.secret, "routing_key is unknown")
        key = body["dedup_key"]
        if body["event_action"] == "trigger":
            ensure("payload" in body, "payload is missing")
            self.open[key] = body["payload"]
            self.texts.append(body["payload"]["summary"])
        elif body["event_action"] == "resolve":
            self.close(key)
        else:
            self.acknowledged.add(key)
        return 202, json.dumps({"status": "success", "message": "Event processed", "dedup_key": key}).encode()

    def refused(self, words: str) -> tuple[int, bytes]:
        said = {"status": "invalid event", "message": "Event object is invalid", "errors": [words]}
        return 400, json.dumps(said).encode()

    @staticmethod
    def _payload(_: str, value: object) -> None:
        required = {
            "summary": Text(1024, 1),
            "source": Text(least=1),
            "severity": Text(of=("critical", "error", "warning", "info")),
        }
        more = {"timestamp": WHEN, "component": Text(), "group": Text(), "class": Text(), "custom_details": texts()}
        check_object(value, required, more, "payload.")


class Alertmanager(Service):
    """API v2, `postableAlerts` of api/v2/openapi.yaml, and how it merges alerts: by their labels, until `endsAt`."""

    def take(self, request: Received, body: Any) -> tuple[int, bytes]:
        ensure(request.path == "/api/v2/alerts", f"{request.path} isn't there")
        ensure(not self.secret or request.headers.get("Authorization") == f"Bearer {self.secret}", "not allowed")
        _list("the body", body)
        for each in body:
            more = {"startsAt": WHEN, "endsAt": WHEN, "annotations": texts(keys=LABEL), "generatorURL": Text()}
            check_object(each, {"labels": texts(keys=LABEL)}, more)
            ensure(bool(each["labels"].get("alertname")), "labels have no alertname")
            self._keep(each)
        return 200, b""

    def refused(self, words: str) -> tuple[int, bytes]:
        return 400, json.dumps(words).encode()

    def _keep(self, alert: Any) -> None:
        key = json.dumps({name: value for name, value in alert["labels"].items() if value}, sort_keys=True)
        begun, ended = (datetime.fromisoformat(alert[name]) for name in ("startsAt", "endsAt"))
        ensure(begun <= ended, "it ends before it begins")
        if ended <= datetime.now(UTC):
            self.close(key)
        else:
            self.open[key] = alert
            self.texts.append(alert["annotations"]["summary"])


class StandardWebhook(Service):
    """A receiver with a library of Standard Webhooks 1.0.0, written anew from the specification."""

    def take(self, request: Received, body: Any) -> tuple[int, bytes]:
        delivery, stamp, proofs = (
            request.headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
        )
        ensure(bool(re.fullmatch(r"[A-Za-z0-9_-]+", delivery)), "webhook-id is missing or has a dot")
        ensure(stamp.isdigit() and abs(time.time() - int(stamp)) < 300, "webhook-timestamp is too old")
        key = base64.b64decode(self.secret.removeprefix("whsec_"), validate=True)
        ensure(24 <= len(key) <= 64, "the secret has a wrong length")
        digest = hmac.new(key, f"{delivery}.{stamp}.".encode() + request.body, hashlib.sha256).digest()
        ensure(f"v1,{base64.b64encode(digest).decode()}" in proofs.split(" "), "webhook-signature doesn't match")
        ensure(len(request.body) < 20_000, "the body is large")
        if delivery not in self.ids:
            self.ids.append(delivery)
            self._note(body)
        return 204, b""

    def _note(self, body: Any) -> None:
        ensure(body["version"] == 1, "version is unknown")
        self.texts.append(body["words"])
        if body["event"] == "resolved":
            self.close(body["alert"])
        elif body["event"] == "acknowledged":
            self.acknowledged.add(body["alert"])
        else:
            self.open[body["alert"]] = body


def _list(name: str, value: object) -> None:
    ensure(isinstance(value, list), f"{name} must be a list")
