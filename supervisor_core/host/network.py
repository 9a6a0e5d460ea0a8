"""The way out, by one rule for every client: the proxy that a URL is reached through, and the certificates that count.

The variables come from the environment and from `.env`, so that a proxy is configured where the tokens are. No library
looks for them itself: each has a rule of its own, and most ignore `NO_PROXY` somewhere.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from supervisor_core.common.errors import SupervisorError

if TYPE_CHECKING:
    import ssl

PROXIES = {"https": "HTTPS_PROXY", "wss": "HTTPS_PROXY", "http": "HTTP_PROXY", "ws": "HTTP_PROXY"}
ANY_PROXY, NO_PROXY = "ALL_PROXY", "NO_PROXY"
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
PORTS = {"https": 443, "wss": 443, "http": 80, "ws": 80}

ADD_ISSUER = "put the issuer's certificate (PEM) into a file and name it in SSL_CERT_FILE"
OTHER_CAUSES = {
    10: "renew it, or set this host's clock",
    62: "use a name that the certificate has",
    64: "use a name that the certificate has",
}
"""Remedies by OpenSSL's code: the certificate has expired, or is for another name or address."""


class NetworkError(SupervisorError):
    """A variable of the proxy or the certificates can't be used."""

    def __init__(self, message: str) -> None:
        source = "in the environment or in the .env file beside the configuration"
        super().__init__(message, remedy=f"Correct it {source}, then restart the daemon.")


class Network:
    """The rule, with the variables of one environment. Relative files start at `folder`."""

    def __init__(self, environ: Mapping[str, str], folder: Path | None = None) -> None:
        self._environ = environ
        self._folder = folder or Path()
        self._tls: ssl.SSLContext | None = None

    def proxy(self, url: str) -> str | None:
        """The URL of the proxy for this URL; None if it's reached directly."""
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port or PORTS.get(parts.scheme)
        exceptions = re.split(r"[\s,]+", self._first(NO_PROXY)[1].lower())
        if is_loopback(host) or any(_is_listed(entry, host, port) for entry in exceptions if entry):
            return None
        name, value = self._first(PROXIES.get(parts.scheme, ""), ANY_PROXY)
        return _checked_proxy(name, value) if value else None

    def tls(self) -> ssl.SSLContext:
        """The TLS settings for every connection. It reads files, once."""
        if self._tls is None:
            self._tls = self._load_certificates()
        return self._tls

    def tls_for(self, url: str) -> ssl.SSLContext | None:
        """The TLS settings for this URL; None if neither it nor its proxy has TLS."""
        schemes = {urlsplit(address).scheme for address in (url, self.proxy(url) or "")}
        return self.tls() if schemes & {"https", "wss"} else None

    def proxy_variables(self) -> Iterator[tuple[str, str]]:
        """Each variable that names a proxy, and that proxy without its password."""
        for variable in dict.fromkeys((*PROXIES.values(), ANY_PROXY)):
            name, value = self._first(variable)
            if value:
                yield name, without_password(_checked_proxy(name, value))

    def certificate_files(self) -> Iterator[tuple[str, Path]]:
        """Each variable that names certificates, and its file or folder."""
        for name in CERTIFICATES:
            if value := self._environ.get(name, "").strip():
                yield name, self._folder / Path(value).expanduser()

    def secrets(self) -> Iterator[str]:
        """The passwords of proxies, as written and as meant."""
        for variable in (*PROXIES.values(), ANY_PROXY):
            value = self._first(variable)[1]
            if password := re.search(r"(?:^|//)[^/@]*:([^/]*)@", value):
                yield from {password[1], unquote(password[1])}

    def _first(self, *variables: str) -> tuple[str, str]:
        """The first of these variables that isn't empty; the lowercase spelling counts first, as with curl."""
        for variable in variables:
            for name in (variable.lower(), variable):
                if value := self._environ.get(name, "").strip():
                    return name, value
        return "", ""

    def _load_certificates(self) -> ssl.SSLContext:
        import ssl

        context = ssl.create_default_context()  # a file in our own environment takes the place of the system's here
        system = ssl.get_default_verify_paths()
        file, folder = system.openssl_cafile, system.openssl_capath
        if os.path.isfile(file) or os.path.isdir(folder):  # noqa: PTH112, PTH113 (what OpenSSL was built with)
            context.load_verify_locations(*(path if os.path.exists(path) else None for path in (file, folder)))  # noqa: PTH110
        elif sys.platform != "win32":
            from requests.utils import DEFAULT_CA_BUNDLE_PATH

            context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
        for name, path in self.certificate_files():
            try:
                context.load_verify_locations(*((None, path) if path.is_dir() else (path, None)))
            except ssl.SSLError:
                raise NetworkError(f"{name}: {path} has no certificates in PEM form.") from None
            except OSError as error:
                raise NetworkError(f"{name}: {path} can't be read: {error.strerror}.") from None
        return context


DIRECT = Network({})
"""No proxy, and the system's certificates."""


def without_password(proxy: str) -> str:
    """The URL of a proxy, to show to people."""
    scheme, _, address = proxy.partition("://")
    return f"{scheme}://{address.rpartition('@')[2].rstrip('/')}"


def certificate_problem(error: BaseException) -> str:
    """Why a certificate was rejected and what to do, if that caused the error; else empty."""
    import ssl

    for cause in causes_of(error):
        if isinstance(cause, ssl.SSLCertVerificationError) and hasattr(cause, "verify_code"):
            remedy = OTHER_CAUSES.get(cause.verify_code, ADD_ISSUER)
            return f"certificate rejected: {cause.verify_message.rstrip('.')}; {remedy}"
    return ""


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error and everything that caused it. Libraries keep causes in several places."""
    visited: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop()
        if isinstance(cause, BaseException) and id(cause) not in visited:
            visited.add(id(cause))
            yield cause
            waiting += [cause.__context__, cause.__cause__, getattr(cause, "reason", None), *cause.args]


def _checked_proxy(name: str, value: str) -> str:
    """The URL of a proxy; without a scheme it's one of HTTP."""
    url = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isprintable() or " " in url:
        raise NetworkError(f"{name} must be the URL of an HTTP proxy, such as http://proxy.example.com:3128.")
    return url


def is_loopback(host: str) -> bool:
    address = _address(host)
    return address.is_loopback if address else host == "localhost" or host.endswith(".localhost")


def _is_listed(entry: str, host: str, port: int | None) -> bool:
    """True if an entry of `NO_PROXY` is for this host: `*`, a domain with its subdomains, an address or a network, each
    with a port or without."""
    name, bracket, host_port = entry.removeprefix("[").partition("]") if entry.startswith("[") else (entry, "", "")
    if not bracket and entry.count(":") == 1:
        name, _, host_port = entry.partition(":")
    if host_port.removeprefix(":") not in ("", str(port)):
        return False
    address = _address(host)
    if address is not None:
        try:
            return name == "*" or address in ipaddress.ip_network(name, strict=False)
        except ValueError:
            return False
    domain = name.removeprefix("*").removeprefix(".").rstrip(".")
    return name == "*" or (bool(domain) and (host == domain or host.endswith(f".{domain}")))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
