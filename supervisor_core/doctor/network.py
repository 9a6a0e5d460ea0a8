"""The checks of the way out: proxies and certificates, the hosts that receive alerts and pings, who is on call, and the
fleet.

Nothing is sent to a receiver's address: a document might call somebody, and a ping would say that all is well. Its host
is asked for its front page over the same route, and any answer will do.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from supervisor_core.alerts.oncall import OnCallDirectory, on_call_sources
from supervisor_core.alerts.outside.notify import can_use
from supervisor_core.common.service import RUNNING
from supervisor_core.common.service_names import METRICS
from supervisor_core.config.fields import OnCallSource, SecretUrl, mask_url
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.schema import JSON, NOTIFY, Receiver, WebhookSettings
from supervisor_core.config.slack_credentials import API_URL, SLACK_ITSELF
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.doctor.daemon import observe_daemon
from supervisor_core.host import web
from supervisor_core.host.network import NetworkError, without_password
from supervisor_core.host.web import NoHttpResponse
from supervisor_core.web.service import CHOOSE, IN_USE, is_needed

NETWORK, WEBHOOK, DEADMAN, ON_CALL, INCOMING, FLEET = "network", "webhook", "deadman", "oncall", "incoming", "fleet"
REMEDY = "Check the URL in {key}, and this host's DNS, proxy (HTTPS_PROXY) and firewall."
UNSIGNED = "Set the receiver's secret on both sides, so it can verify where an alert comes from."
MOST_HOSTS = 5


def check_network(config: SupervisorConfig) -> CheckResult:
    """The proxy of each host, and the certificates that count, without asking anybody."""
    network = config.network
    try:
        list(network.proxy_variables())
        ways = {host: network.proxy(url) or "" for host, url in _urls(config)}
        named: dict[Path, list[str]] = {}
        for name, path in network.certificate_files():
            named.setdefault(path, []).append(name)
        network.tls()
    except NetworkError as error:
        return CheckResult(NETWORK, False, error.message.rstrip("."), error.remedy)
    proxies = dict.fromkeys(proxy for proxy in ways.values() if proxy)
    parts = [f"{_some(ways, proxy)} through {without_password(proxy)}" for proxy in proxies]
    direct = _some(ways, "")
    parts += [f"{direct} directly" if proxies else "no proxy"] if direct or not proxies else []
    trusted = ["the system's certificates", *(f"{path} ({', '.join(names)})" for path, names in named.items())]
    return CheckResult(NETWORK, True, f"{'; '.join(parts)}; trusts {' and '.join(trusted)}")


def _some(ways: dict[str, str], proxy: str) -> str:
    hosts = [host for host, way in ways.items() if way == proxy]
    more = f" and {len(hosts) - MOST_HOSTS} more" if len(hosts) > MOST_HOSTS else ""
    return ", ".join(hosts[:MOST_HOSTS]) + more


def _urls(config: SupervisorConfig) -> Iterator[tuple[str, str]]:
    urls = [config.environ.get(API_URL) or SLACK_ITSELF] if config.slack.enabled else []
    urls += [each.address for each in config.alerts.outside if each.format != NOTIFY]
    urls += [config.alerts.deadman_url.get_secret_value()]
    urls += [source.settings.url.get_secret_value() for source, _ in on_call_sources(config)]
    probes = (probe.http for worker in config.workers.values() for probe in worker.probes)
    urls += [http.get_secret_value() for http in probes if http is not None]
    yield from ((urlsplit(url).hostname or "", url) for url in urls if url)


def check_receivers(config: SupervisorConfig) -> Sequence[CheckResult]:
    said = config.alerts
    off = [CheckResult(WEBHOOK, True, "off: alerts.webhook.url isn't set")] if not said.webhook.address else []
    places = {each.label: f"alerts.receivers[{number}].url" for number, each in enumerate(said.receivers)}
    with ThreadPoolExecutor(max(len(said.outside), 1)) as pool:
        checks = pool.map(
            lambda each: _receiver(config, each, places.get(each.label, "alerts.webhook.url")), said.outside
        )
        return [*off, *checks]


def _receiver(config: SupervisorConfig, receiver: Receiver, key: str) -> CheckResult:
    name = WEBHOOK if receiver.label == WEBHOOK else f"receiver_{receiver.label}"
    if not isinstance(receiver, WebhookSettings):
        usable = can_use(receiver.address)
        message = f"{receiver.shown} can be used; nothing was sent" if usable else f"Apprise can't use {receiver.shown}"
        return CheckResult(name, usable, message, "" if usable else "Correct the URL in alerts.notify.")
    check = _reached(config, name, key, SecretUrl(receiver.address))
    if check.ok and receiver.format == JSON and not receiver.secret:
        return CheckResult(name, True, f"{check.message}; requests aren't signed", UNSIGNED)
    return check


def check_deadman(config: SupervisorConfig) -> CheckResult:
    """Reach the receiver of pings."""
    return _reached(config, DEADMAN, "alerts.deadman_url", config.alerts.deadman_url)


def _reached(config: SupervisorConfig, name: str, key: str, url: SecretUrl) -> CheckResult:
    if not url:
        return CheckResult(name, True, f"off: {key} isn't set")
    address, shown = url.get_secret_value(), mask_url(url.get_secret_value())
    parts = urlsplit(address)
    front = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"
    try:
        web.send_request(config.network, "HEAD", front)
    except NoHttpResponse as error:
        return CheckResult(name, False, f"{shown}: {error}", REMEDY.format(key=key))
    return CheckResult(name, True, f"{shown} is reachable; only HEAD / was sent")


def check_metrics(config: SupervisorConfig) -> CheckResult:
    """The address of the metrics and the status page. A taken one fails only if somebody chose it."""
    bind = config.metrics.bind
    if not bind:
        return CheckResult(METRICS, True, "off: metrics.bind is empty")
    served = observe_daemon(config).service(METRICS)
    listens = served.get("reason") == RUNNING if served else not _is_taken(bind)
    if listens:
        return CheckResult(METRICS, True, f"{'at' if served else 'can listen at'} http://{bind}")
    problem = str(served.get("last_error") or "") or IN_USE.format(bind)
    return CheckResult(METRICS, not is_needed(config), problem, CHOOSE)


def _is_taken(bind: str) -> bool:
    """True if another program listens there. Any other problem is left to the daemon."""
    host, _, port = bind.rpartition(":")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host.strip("[]"), int(port)))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def check_incoming(config: SupervisorConfig) -> CheckResult:
    """The address for Alertmanager's alerts."""
    if not config.alerts.incoming.token:
        return CheckResult(INCOMING, True, "off: alerts.incoming.token isn't set")
    if not config.metrics.bind:
        remedy = "Set metrics.bind to an address that Alertmanager can reach."
        return CheckResult(INCOMING, False, "alerts.incoming.token is set, but metrics.bind is empty", remedy)
    words = f"takes Alertmanager's alerts at http://{config.metrics.bind}/alertmanager"
    return CheckResult(INCOMING, True, f"{words}; workers by the label {config.alerts.incoming.worker_label}")


def check_on_call(config: SupervisorConfig) -> Sequence[CheckResult]:
    """Who is on call now, by each source, and how that is known."""
    found: dict[OnCallSource, list[str]] = {}
    for source, key in on_call_sources(config):
        found.setdefault(source, []).append(key)
    if not found:
        return [CheckResult(ON_CALL, True, "no source configured")]
    directory = OnCallDirectory(lambda: config)
    remedy = "Correct the source. It must list email addresses or Slack user ids, as a JSON list or one on each line."
    results = []
    with ThreadPoolExecutor(len(found)) as pool:
        for keys, answer in zip(found.values(), pool.map(directory.ask, found), strict=True):
            message = f"{', '.join(keys)}: {answer.in_words()}"
            results.append(CheckResult(ON_CALL, not answer.problem, message, remedy if answer.problem else ""))
    return results


def check_fleet(config: SupervisorConfig) -> Sequence[CheckResult]:
    if not config.fleet.role:
        return [CheckResult(FLEET, True, "this host isn't in a fleet")]
    from supervisor_core.doctor.fleet import check_fleet as check  # imports nkeys

    return [replace(result, name=f"{FLEET}_{result.name}") for result in asyncio.run(check(config))]
