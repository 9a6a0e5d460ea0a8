"""The check of the doors beyond Slack: whether whoever should hear of alerts, or that all is well, can be reached.

Nothing is sent to their addresses: a document might call somebody, and a ping would say that all is well. Their host
is asked for its front page, over the very road that both take, and whatever it answers will do.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from supervisor_core.adapters import web
from supervisor_core.adapters.web import NoAnswer
from supervisor_core.config import SupervisorConfig
from supervisor_core.config.urls import SecretUrl, masked
from supervisor_core.runtime.doctor.checks import Check

WEBHOOK, DEADMAN = "webhook", "deadman"
REMEDY = "Look at the address in {key}, and at name service, proxy (HTTPS_PROXY) and firewall of this host."
UNSIGNED = "Set alerts.webhook.secret on both sides: without it nobody can tell our alerts from somebody else's."


def webhook(config: SupervisorConfig) -> Check:
    """Whether the receiver of alerts is there."""
    said = config.alerts.webhook
    check = _reached(WEBHOOK, "alerts.webhook.url", said.url)
    if check.ok and said.url and not said.secret.get_secret_value():
        return Check(WEBHOOK, True, f"{check.message}; what is sent there is not signed", UNSIGNED)
    return check


def deadman(config: SupervisorConfig) -> Check:
    """Whether whoever waits for our pings is there."""
    return _reached(DEADMAN, "alerts.deadman_url", config.alerts.deadman_url)


def _reached(name: str, key: str, url: SecretUrl) -> Check:
    if not url:
        return Check(name, True, f"off: {key} is not set")
    address, shown = url.get_secret_value(), masked(url.get_secret_value())
    parts = urlsplit(address)
    front = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"
    try:
        web.ask("HEAD", front)
    except NoAnswer as error:
        return Check(name, False, f"{shown}: {error}", REMEDY.format(key=key))
    return Check(name, True, f"{shown} answers; nothing was sent to it")
