"""Alerts through Apprise, to each URL of `alerts.notify`.

Apprise loads all of its services at once, in a second, so it's imported only to check a URL and to send. Its log may
quote a URL and what a server answers. Nothing of it is kept but the HTTP status.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from supervisor_core.alerts.outside.formats import CLIENT, AlertDocument, cut, is_over
from supervisor_core.alerts.outside.transport import LONGEST_SECONDS, SendResult, SendVerdict, judge_answer
from supervisor_core.common.errors import ConfigError
from supervisor_core.common.text import one_line
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.schema import Receiver

if TYPE_CHECKING:
    from apprise import NotifyBase

TITLE, BODY = 120, 900
"""Characters. Pushover takes 1,024, and of the common services least."""

TYPES = {"critical": "failure", "warning": "warning"}

_STATUS = re.compile(r"\berror=(\d{3})\b")
_MENTION = re.compile("([@<])")


class Notification(NamedTuple):
    url: str
    title: str
    body: str
    type: str


def notification(document: AlertDocument, receiver: Receiver) -> Notification:
    """The alert's line, its severity and its id. No service reads a mention or a link in it."""
    mark = "recovered" if is_over(document) else str(document["severity"])
    title = f"[{mark}] {document['target']['id']} on {document['host']}"
    body = f"{one_line(document['words'], BODY)} (alert {document['alert']})"
    kind = "success" if is_over(document) else TYPES.get(document["severity"], "info")
    return Notification(receiver.address, cut(title, TITLE), _MENTION.sub("\\1\N{ZERO WIDTH SPACE}", body), kind)


def send_notification(message: Notification) -> SendResult:
    """Send it once; it blocks."""
    from apprise import Apprise

    service = _service(message.url)
    if service is None:
        return SendResult(SendVerdict.REFUSED, "Apprise can't use this URL")
    lines: list[str] = []
    accepted = Apprise(service, asset=service.asset).notify(
        message.body,
        title=message.title,
        notify_type=message.type,
        body_format="text",
        timeout=LONGEST_SECONDS,
        log_callback=lambda entry, _: lines.append(entry.message),
    )
    if accepted:
        return SendResult(SendVerdict.TAKEN, "delivered")
    if statuses := _STATUS.findall("\n".join(lines)):
        return judge_answer(int(statuses[-1]), "", datetime.now(UTC))
    return SendResult(SendVerdict.AGAIN, "Apprise couldn't deliver it")


def check_notify_urls(config: SupervisorConfig) -> None:
    """Raise `ConfigError` for URLs that Apprise can't use. It takes a second where there are any."""
    problems = [
        f"{config.path}: alerts.notify[{number}] isn't a URL that Apprise can use; see https://appriseit.com/services/"
        for number, url in enumerate(config.alerts.notify)
        if url and not can_use(url.get_secret_value())
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def can_use(url: str) -> bool:
    return _service(url) is not None


def _service(url: str) -> NotifyBase | None:
    from apprise import Apprise, AppriseAsset

    logging.getLogger("apprise").propagate = False
    asset = AppriseAsset(app_id=CLIENT, async_mode=False, interpret_emojis=False, allow_templates=False)
    return Apprise.instantiate(url, asset=asset)
