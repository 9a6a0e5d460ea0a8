"""Email (RFC 5322). The messages of one alert are one conversation in a mail program."""

from __future__ import annotations

import hashlib
from datetime import datetime

from supervisor_core.alerts.outside.formats.model import (
    CLIENT,
    AlertDocument,
    Mail,
    MailLogin,
    cut,
    details_of,
    is_over,
    key_of,
)
from supervisor_core.alerts.rules import Reason
from supervisor_core.common.text import one_line
from supervisor_core.common.times import from_text
from supervisor_core.config.alert_settings import WebhookSettings

SUBJECT = 200
"""Characters."""

TEXT = 10_000


def mail_call(document: AlertDocument, receiver: WebhookSettings, _: datetime) -> Mail:
    """A message with the alert's line as its subject. All later ones reply to the first."""
    from email.headerregistry import Address  # late: most hosts send no email
    from email.message import EmailMessage
    from email.utils import format_datetime

    message = EmailMessage()
    message["From"] = Address(CLIENT, addr_spec=receiver.sender)
    message["To"] = [Address(addr_spec=each) for each in receiver.to]
    message["Date"] = format_datetime(from_text(document["at"]))
    message["Subject"] = one_line(f"[{_mark(document)}] {document['words']}", SUBJECT)
    message["Message-ID"] = _message_id(document["delivery"], receiver)
    thread = _message_id(hashlib.sha256(key_of(document).encode()).hexdigest()[:32], receiver)
    message["References"] = thread
    if document["event"] != Reason.FIRST:
        message["In-Reply-To"] = thread
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(_text(document))
    return Mail(MailLogin(receiver.address, receiver.user, receiver.secret.get_secret_value()), message)


def _mark(document: AlertDocument) -> str:
    return "recovered" if is_over(document) else str(document["severity"])


def _message_id(name: str, receiver: WebhookSettings) -> str:
    """The same for each attempt, so a mail program shows a second copy once."""
    return f"<{name}@{receiver.sender.rpartition('@')[2]}>"


def _text(document: AlertDocument) -> str:
    facts = "\n".join(f"{name.capitalize()}: {one_line(value, TEXT)}" for name, value in details_of(document).items())
    return cut(f"{one_line(document['words'], TEXT)}\n\n{facts}\n", 2 * TEXT)


def recipients_of(mail: Mail) -> list[str]:
    """The addresses of the envelope."""
    return [each.addr_spec for each in mail.message["To"].addresses]
