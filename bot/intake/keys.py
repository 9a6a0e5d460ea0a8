"""What makes two deliveries the same: a key for each kind of envelope, the same across connections and restarts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

KEY_LENGTH = 255


def key_of(kind: str, payload: Mapping[str, Any], envelope_id: str) -> str:
    """The key of an envelope; its own id where Slack gives nothing better."""
    parts = _parts(kind, payload) or ("envelope", envelope_id)
    key = ":".join(str(part) for part in parts)
    if len(key) <= KEY_LENGTH and key.isprintable():
        return key
    return f"{parts[0]}:{hashlib.sha256(key.encode('utf-8', 'backslashreplace')).hexdigest()}"


def _parts(kind: str, payload: Mapping[str, Any]) -> tuple[object, ...] | None:
    if kind == "events_api" and payload.get("event_id"):
        return _said(_mapping(payload, "event")) or ("event", payload["event_id"])
    if kind == "slash_commands" and payload.get("trigger_id"):
        return ("command", payload["trigger_id"])
    if kind == "interactive":
        return _interactive(payload)
    return None


def _said(event: Mapping[str, Any]) -> tuple[object, ...] | None:
    """What a person said to the bot is told by its place: it may come as a mention and as a message."""
    direct = event.get("type") == "message" and event.get("channel_type") == "im" and not event.get("subtype")
    if (direct or event.get("type") == "app_mention") and event.get("channel") and event.get("ts"):
        return ("said", event["channel"], event["ts"])
    return None


def _interactive(payload: Mapping[str, Any]) -> tuple[object, ...] | None:
    """A click is told by its own time; a submission by the view as it was; a shortcut by its trigger."""
    user = _mapping(payload, "user").get("id")
    view = _mapping(payload, "view")
    actions = payload.get("actions")
    if payload.get("type") == "block_actions" and isinstance(actions, list) and actions:
        place = _mapping(payload, "container").get("message_ts") or view.get("id")
        clicks = [(action.get("action_id"), action.get("action_ts")) for action in actions if isinstance(action, dict)]
        return ("click", place, user, json.dumps(clicks))
    if payload.get("type") in ("view_submission", "view_closed") and view.get("id"):
        return (payload["type"], view["id"], view.get("hash"), user)
    if payload.get("trigger_id"):
        return ("trigger", payload["trigger_id"])
    return None


def _mapping(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = payload.get(name)
    return value if isinstance(value, Mapping) else {}
