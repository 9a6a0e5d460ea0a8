"""Requests and probes through a proxy and with certificates of our own: the same rule, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from supervisor_core.common.service import Blocking
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.doctor.network import check_network, check_receivers
from supervisor_core.host.network import Network
from supervisor_core.host.web import NoHttpResponse, send_request
from supervisor_core.workers import probes
from tests.support.processes.probe_servers import Answering, web_server
from tests.support.processes.proxies import Authority, Proxy, with_tls

UNTRUSTED = "certificate rejected: unable to get local issuer certificate; put the issuer's certificate"


@dataclass
class Place:
    """A server with TLS and without, and a proxy that knows the way to both."""

    web: Answering
    proxy: Proxy
    proxy_url: str
    tls_port: int
    authority: Authority
    folder: Path

    def environ(self, **more: str) -> dict[str, str]:
        return {"HTTPS_PROXY": self.proxy_url, "HTTP_PROXY": self.proxy_url, **more}

    @property
    def trusted(self) -> dict[str, str]:
        return {"SSL_CERT_FILE": str(self.authority.file)}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    authority = Authority(tmp_path)
    with web_server() as web, with_tls(authority.signed(), web.port) as tls_port:
        proxy = Proxy({"receiver.test": tls_port, "plain.invalid": web.port})
        with proxy.running() as url:
            yield Place(web, proxy, url, tls_port, authority, tmp_path)


def by_request(_: Place, environ: dict[str, str], url: str) -> str:
    """The outcome of a webhook's request, in words."""
    try:
        return f"responded {send_request(Network(environ), 'GET', url).status}"
    except NoHttpResponse as error:
        return str(error)


def by_probe(place: Place, environ: dict[str, str], url: str) -> str:
    """The outcome of a worker's probe, in words."""
    worker = {"command": ["true"], "probes": [{"http": url}]}
    (place.folder / "config.yaml").write_text(yaml.safe_dump({"workers": {"A": worker}}))
    (place.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    config = load_supervisor_config(place.folder / "config.yaml", environ={})
    found = config.worker("A")
    answer = asyncio.run(probes.ask(config, found, found.probes[0], Blocking(4)), debug=True)
    return answer.message.removesuffix(" OK")


by_both = pytest.mark.parametrize("client", [by_request, by_probe])
Client = Callable[[Place, dict[str, str], str], str]


@by_both
def test_a_tunnel_is_opened_and_the_server_s_own_certificate_checked(client: Client, place: Place) -> None:
    url = "https://receiver.test:8443/health"
    assert client(place, place.environ(**place.trusted), url) == "responded 200"
    assert place.proxy.asked == ["CONNECT receiver.test:8443"]
    assert client(place, place.environ(), url).startswith(UNTRUSTED)
    assert client(place, place.environ(REQUESTS_CA_BUNDLE=str(place.authority.file)), url) == "responded 200"
    assert place.web.asked == ["/health"] * 2


@by_both
def test_a_proxy_can_not_answer_for_the_server_behind_its_tunnel(client: Client, place: Place) -> None:
    place.web.status = 500
    place.proxy.forged = b"HTTP/1.1 200 OK\r\n\r\n"
    assert "200" not in client(place, place.environ(**place.trusted), "https://receiver.test/health")


@by_both
def test_a_request_without_tls_is_handed_to_the_proxy_as_a_whole(client: Client, place: Place) -> None:
    assert client(place, place.environ(), "http://plain.invalid/health?q=1") == "responded 200"
    assert place.proxy.asked == ["GET http://plain.invalid/health?q=1"]


@by_both
def test_no_proxy_and_this_host_are_reached_directly(client: Client, place: Place) -> None:
    environ = place.environ(NO_PROXY="plain.invalid", **place.trusted)
    assert (
        "can't be resolved" in (words := client(place, environ, "http://plain.invalid/")) or "unknown hostname" in words
    )
    assert client(place, environ, f"https://localhost:{place.tls_port}/health") == "responded 200"
    assert place.proxy.asked == []


@by_both
def test_the_password_of_a_proxy_is_sent_and_a_wrong_one_told(client: Client, place: Place) -> None:
    place.proxy.credentials = "anna:p@ss"
    url = place.proxy_url.replace("//", "//anna:p%40ss@")
    for target in ("https://receiver.test/", "http://plain.invalid/"):
        assert client(place, {"ALL_PROXY": url, **place.trusted}, target) == "responded 200"
    words = client(place, place.environ(**place.trusted), "https://receiver.test/")
    assert words == "the proxy responds with HTTP 407"


@by_both
def test_a_proxy_with_tls_is_spoken_to_with_tls(client: Client, place: Place) -> None:
    with with_tls(place.authority.signed(), urlsplit(place.proxy_url).port or 0) as port:
        environ = {"ALL_PROXY": f"https://localhost:{port}"}
        for target in ("https://receiver.test/", "http://plain.invalid/"):
            assert client(place, {**environ, **place.trusted}, target) == "responded 200"
            assert client(place, environ, target).startswith(UNTRUSTED)
    assert len(place.proxy.asked) == 2


@by_both
def test_a_certificate_for_another_name_has_its_own_remedy(client: Client, place: Place) -> None:
    place.proxy.ports = {"other.test": place.tls_port}
    words = client(place, place.environ(**place.trusted), "https://other.test/")
    assert words.startswith("certificate rejected: Hostname mismatch")
    assert words.endswith("; use a name that the certificate has")


@by_both
def test_a_variable_that_can_not_be_used_is_named(client: Client, place: Place) -> None:
    assert client(place, {"HTTPS_PROXY": "socks5://h:1"}, "https://receiver.test/").startswith("HTTPS_PROXY must be")
    assert client(place, {"SSL_CERT_FILE": "/gone"}, "https://receiver.test/").startswith("SSL_CERT_FILE: /gone")


def test_doctor_tells_the_ways_and_the_certificates(place: Place) -> None:
    webhook, probe = "https://receiver.test/hook", {"http": f"http://127.0.0.1:{place.web.port}/"}
    document = {
        "workers": {"A": {"command": ["true"], "probes": [probe]}},
        "alerts": {"webhook": {"url": webhook, "secret": "s" * 20}},
    }
    (place.folder / "config.yaml").write_text(yaml.safe_dump(document))
    url = place.proxy_url.replace("//", "//anna:secret@")
    (place.folder / ".env").write_text(f"HTTPS_PROXY={url}\nSSL_CERT_FILE=ca.pem\n")

    config = load_supervisor_config(place.folder / "config.yaml", environ={})
    told = check_network(config)
    assert told.ok
    assert told.message == (
        f"slack.com, receiver.test through {place.proxy_url}; 127.0.0.1 directly; "
        f"trusts the system's certificates and {place.authority.file} (SSL_CERT_FILE)"
    )
    assert all(each.ok for each in check_receivers(config))
    assert "secret" in config.secrets
    bare = load_supervisor_config(place.folder / "config.yaml", environ={"HTTPS_PROXY": "", "SSL_CERT_FILE": ""})
    assert check_network(bare).message == "no proxy; trusts the system's certificates"
    broken = load_supervisor_config(place.folder / "config.yaml", environ={"SSL_CERT_FILE": "gone.pem"})
    assert not check_network(broken).ok
    assert "SSL_CERT_FILE: " in check_network(broken).message
    assert ".env" in check_network(broken).remedy
