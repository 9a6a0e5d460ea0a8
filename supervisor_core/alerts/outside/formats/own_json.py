"""The supervisor's own JSON, signed as Standard Webhooks 1.0.0 describes (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime

from supervisor_core.alerts.outside.formats.model import AlertDocument, HttpCall
from supervisor_core.common.text import canonical_json
from supervisor_core.config.alert_settings import WebhookSettings, signing_key

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
VERSION = "v1"
"""Of a signature with a shared secret."""

REPLAY_SECONDS = 300
"""The difference that a receiver allows between the timestamp and its clock; each attempt has its own timestamp."""


def json_call(document: AlertDocument, receiver: WebhookSettings, now: datetime) -> HttpCall:
    """The document as it is."""
    body = body_of(document)
    return HttpCall(
        receiver.address, body, headers_of(body, document["delivery"], receiver.secret.get_secret_value(), now)
    )


def body_of(document: AlertDocument) -> bytes:
    """The bytes that are sent, and signed."""
    return canonical_json({name: value for name, value in document.items() if name != "receiver"}).encode()


def headers_of(body: bytes, delivery: str, secret: str, now: datetime) -> dict[str, str]:
    """The headers of one attempt. Without a secret nothing is signed.

    The id is the same for each attempt, so a receiver can ignore the second of two."""
    timestamp = int(now.timestamp())
    headers = {"Content-Type": "application/json", ID: delivery, TIMESTAMP: str(timestamp)}
    return {**headers, SIGNATURE: signature(secret, delivery, timestamp, body)} if secret else headers


def signature(secret: str, delivery: str, timestamp: int, body: bytes) -> str:
    """Sign the id, the time and the body.

    An id has letters and digits only, so where it ends is certain."""
    key = signing_key(secret)
    if key is None:  # pragma: no cover (the configuration refuses it)
        raise ValueError("the secret isn't one of Standard Webhooks")
    digest = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"{VERSION},{base64.b64encode(digest).decode()}"
