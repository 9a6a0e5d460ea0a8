"""Outgoing HTTP: one request, and its status or an error in words.

An address may contain a token, so errors and log lines only show its host.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from supervisor_core.host.network import PORTS, Network, NetworkError, causes_of, certificate_problem
from supervisor_core.version import __version__

if TYPE_CHECKING:
    from requests import Session

CONNECT_SECONDS, READ_SECONDS = 5.0, 10.0
"""The time limits for a connection, and for each piece of a response."""

MOST_REDIRECTS = 3
USER_AGENT = f"supervisor-chatops/{__version__}"

_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})\b")

logging.getLogger("urllib3").setLevel(logging.CRITICAL)  # it writes whole addresses


class NoHttpResponse(Exception):
    """No response; the message says why."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response without its body, which may have no end; where it was wanted, with the beginning as text."""

    status: int
    retry_after: str = ""
    excerpt: str = ""


def send_request(
    network: Network,
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    excerpt: int = 0,
) -> HttpResponse:
    """One request; it blocks. `excerpt` is the number of bytes of the response that are wanted.

    A redirect is followed within the same host, never down from TLS. With a body, none is followed: it's for the
    configured address alone."""
    with _translate_errors(), _session(network) as session:
        redirects_left = MOST_REDIRECTS if body is None else 0
        while True:
            proxy = network.proxy(url)
            with session.request(
                method,
                url,
                data=body,
                headers={"User-Agent": USER_AGENT, **(headers or {})},
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                proxies={urlsplit(url).scheme: proxy} if proxy else None,
                allow_redirects=False,
                stream=True,
            ) as response:
                target = urljoin(url, response.headers["Location"]) if response.is_redirect else ""
                if not redirects_left or not is_same_host(url, target):
                    content = response.raw.read(excerpt, decode_content=True) if excerpt else b""
                    text = bytes(content).decode(errors="replace")
                    return HttpResponse(response.status_code, response.headers.get("Retry-After", ""), text)
                url, redirects_left = target, redirects_left - 1


def _session(network: Network) -> Session:
    """A session that takes its proxies and certificates from nowhere else."""
    import requests  # late: who asks nobody need not pay for it
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def build_connection_pool_key_attributes(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            host, pool = super().build_connection_pool_key_attributes(*args, **kwargs)
            return host, {**pool, "ssl_context": network.tls()} if host["scheme"] == "https" else pool

        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:  # noqa: ANN401
            tls = {"proxy_ssl_context": network.tls()} if proxy.startswith("https:") else {}
            return super().proxy_manager_for(proxy, **tls, **kwargs)

        def cert_verify(self, *_: object) -> None:
            """Add no certificates to those of the context."""

    session = requests.Session()
    session.trust_env = False
    session.mount("https://", Adapter())
    session.mount("http://", Adapter())
    return session


def is_same_host(url: str, target: str) -> bool:
    """True for a redirect to the same host and port, or from HTTP to HTTPS."""
    old, new = urlsplit(url), urlsplit(target)
    if not new.hostname or old.hostname != new.hostname:
        return False
    origin, destination = ((parts.scheme, parts.port or PORTS.get(parts.scheme)) for parts in (old, new))
    return origin == destination or (origin, destination) == (("http", 80), ("https", 443))


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the library's errors, which quote the address, into ours, which don't."""
    import requests

    try:
        yield
    except NetworkError as error:
        raise NoHttpResponse(error.message.rstrip(".")) from None
    except requests.Timeout:
        raise NoHttpResponse("no response in time") from None
    except requests.exceptions.ProxyError as error:
        status = _TUNNEL.search(str(error))
        refused = f"the proxy responds with HTTP {status[1]}" if status else f"the proxy can't be used{_cause(error)}"
        raise NoHttpResponse(certificate_problem(error) or refused) from None
    except requests.exceptions.SSLError as error:
        raise NoHttpResponse(certificate_problem(error) or f"no trusted connection{_cause(error)}") from None
    except requests.ConnectionError as error:
        raise NoHttpResponse(f"unreachable{_cause(error)}") from None
    except Exception as error:  # noqa: BLE001 (the edge: whatever it is, its words may have the address)
        raise NoHttpResponse(f"the request failed ({type(error).__name__})") from None


def _cause(error: BaseException) -> str:
    """The system's text for an error, without the address."""
    for cause in causes_of(error):
        if isinstance(cause, socket.gaierror):
            return ": unknown hostname"
        if isinstance(cause, OSError) and isinstance(cause.errno, int) and not isinstance(cause, ssl.SSLError):
            return f": {os.strerror(cause.errno)}"
    return ""


MASK = "****"

_QUERY = re.compile(r"(/[^\s?#]{0,500})\?[^\s#]+")
"""The query of an address, which may contain a signature or a token."""


def without_query(text: str) -> str:
    """The text without the queries of addresses, also where an address is cut at its beginning."""
    return _QUERY.sub(rf"\1?{MASK}", text)
