"""Slack's incoming webhooks (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/).

For a workspace where this bot isn't installed. A message can't be edited through such a webhook, so each is a post.
"""

from __future__ import annotations

from datetime import datetime

from supervisor_core.alerts.outside.formats.model import AlertDocument, HttpCall, cut, is_over
from supervisor_core.common.text import canonical_json
from supervisor_core.config.alert_settings import WebhookSettings

TEXT = 3000
"""Characters. Slack shows 4,000, and the escapes count."""

MARKS = {"critical": "🔴", "warning": "🟡"}
OVER = "🟢"
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
"""The characters that Slack reads as the beginning of a mention or a link."""


def slack_call(document: AlertDocument, receiver: WebhookSettings, _: datetime) -> HttpCall:
    """A line of text without markup, with the alert's id: several messages about one alert are known by it.

    A worker's error message can't mention the channel or hide a link."""
    mark = OVER if is_over(document) else MARKS.get(document["severity"], "")
    words = "".join(ESCAPES.get(character, character) for character in cut(document["words"], TEXT))
    text = f"{mark} {words} ({document['alert']})".strip()
    message = {"text": text, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    return HttpCall(receiver.address, canonical_json(message).encode(), {"Content-Type": "application/json"})
