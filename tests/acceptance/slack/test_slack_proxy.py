"""Slack behind a proxy and a certificate authority of one's own: every connection takes the way that `.env` names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from slack_playground import Playground
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError
from tests.support.processes.proxies import Authority, Proxy, with_tls
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started
from tests.support.waiting import wait_until

CREDENTIALS = "anna:s3cret-of-the-proxy"
SLACK = "slack.test"
"""A name that only the proxy knows."""

pytestmark = [pytest.mark.playground(patience=20), pytest.mark.timeout(180)]


@dataclass
class Network:
    """The way to Slack, which has TLS, and the proxy on it."""

    authority: Authority
    proxy: Proxy
    proxy_url: str
    tls_port: int

    @property
    def environ(self) -> dict[str, str]:
        """The variables in `.env`."""
        url = self.proxy_url.replace("//", f"//{CREDENTIALS}@")
        return {"HTTPS_PROXY": url, "SSL_CERT_FILE": str(self.authority.file)}


@contextmanager
def behind_a_proxy(folder: Path, slack: Playground) -> Iterator[Network]:
    """This Slack, reached by a name with TLS. It must have started, so a fixture would be too early."""
    authority, proxy = Authority(folder), Proxy({}, CREDENTIALS)
    world = slack.server.world
    with with_tls(authority.signed(), urlsplit(world.base_url).port or 0) as port, proxy.running() as url:
        proxy.ports = {SLACK: port}
        world.base_url = f"https://{SLACK}"
        yield Network(authority, proxy, url, port)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home") as made:
        yield made


def write_env(home: SlackHome, environ: dict[str, str]) -> None:
    path = home.config.with_name(".env")
    path.write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    path.chmod(0o600)


def checks(home: SlackHome, slack: Playground) -> dict[str, Any]:
    """The rows of doctor, for people whom Slack knows."""
    for name in home.named():
        slack.user(name)
    home.slack = slack.environment
    document = json.loads(home.supervisor("doctor", "--json").stdout)
    assert CREDENTIALS.partition(":")[2] not in json.dumps(document)
    return {check["name"]: check for check in document["checks"]}


async def test_everything_goes_through_the_proxy(home: SlackHome, slack: Playground, tmp_path: Path) -> None:
    with behind_a_proxy(tmp_path, slack) as network:
        write_env(home, network.environ)
        await started(home, slack)
        operator = slack.user("operator")
        card = await operator.says("@bot pause hotfix")
        await card.shows("paused")
        await operator.slash("/supervisor status")  # answered by its response URL
        await operator.sees("paused")
        await operator.says("@bot diagnostics")  # as a file, which is uploaded
        await slack.eventually(lambda: bool(slack.calls("files.completeUploadExternal")), "the report is uploaded")
        await settled(home)
        assert set(network.proxy.asked) == {f"CONNECT {SLACK}:443"}
        told = await asyncio.to_thread(checks, home, slack)
        assert f"{SLACK} through {network.proxy_url}" in told["network"]["message"]
        assert [name for name, check in told.items() if name.startswith("slack_") and not check["ok"]] == []
        assert CREDENTIALS.partition(":")[2] not in home.whole_log()


async def test_a_proxy_may_have_tls_itself(home: SlackHome, slack: Playground, tmp_path: Path) -> None:
    with behind_a_proxy(tmp_path, slack) as network:
        port = urlsplit(network.proxy_url).port or 0
        with with_tls(network.authority.signed(), port) as outer:
            write_env(home, {**network.environ, "HTTPS_PROXY": f"https://{CREDENTIALS}@localhost:{outer}"})
            await started(home, slack)
            card = await slack.user("operator").says("@bot pause hotfix")
            await card.shows("paused")
            await settled(home)
        assert set(network.proxy.asked) == {f"CONNECT {SLACK}:443"}


async def test_this_host_is_reached_without_the_proxy(home: SlackHome, slack: Playground, tmp_path: Path) -> None:
    with behind_a_proxy(tmp_path, slack) as network:
        slack.server.world.base_url = f"https://localhost:{network.tls_port}"
        write_env(home, network.environ)
        await started(home, slack)
        card = await slack.user("operator").says("@bot pause hotfix")
        await card.shows("paused")
        assert network.proxy.asked == []


async def test_an_authority_that_is_not_trusted_is_named_with_what_to_do(
    home: SlackHome, slack: Playground, tmp_path: Path
) -> None:
    with behind_a_proxy(tmp_path, slack) as network:
        write_env(home, {name: value for name, value in network.environ.items() if name != "SSL_CERT_FILE"})
        home.slack = slack.environment
        await asyncio.to_thread(home.start_daemon)

        def reason() -> str:
            with suppress(NotRunningError, UnresponsiveError):
                return str(home.slack_service()["reason"])
            return ""

        words = "certificate rejected: unable to get local issuer certificate; put the issuer's certificate (PEM)"
        await asyncio.to_thread(
            wait_until, lambda: words in reason(), 20, "status says that the certificate is rejected"
        )
        told = await asyncio.to_thread(checks, home, slack)
        assert words in told["slack"]["message"]
        assert "SSL_CERT_FILE" in told["slack"]["message"]


async def test_a_file_that_is_not_there_is_told_once_by_doctor_and_keeps_only_slack_from_starting(
    home: SlackHome, slack: Playground, tmp_path: Path
) -> None:
    with behind_a_proxy(tmp_path, slack) as network:
        write_env(home, {**network.environ, "SSL_CERT_FILE": "gone.pem"})
        told = await asyncio.to_thread(checks, home, slack)
        assert [name for name, check in told.items() if not check["ok"]] == ["network"]
        assert "SSL_CERT_FILE: " in told["network"]["message"]
        assert "gone.pem can't be read: No such file or directory" in told["network"]["message"]
        await asyncio.to_thread(home.start_daemon, wait=False)

        def is_said() -> bool:
            with suppress(NotRunningError, UnresponsiveError):
                return "gone.pem" in str(home.slack_service()["last_error"]) and bool(home.running_copies("OrionMX"))
            return False

        await asyncio.to_thread(wait_until, is_said, 20, "the service names the file, and the worker runs")
        assert network.proxy.asked == []
