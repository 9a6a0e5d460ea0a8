"""One probe of a worker: an HTTP request, a connection, or a program, and the response in words.

Network probes run on the event loop and end with their timeout, whatever the other side does. Blocking parts (a
program, name resolution, loading certificates) run off the loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from supervisor_core.common.text import one_line
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.network import PORTS, Network, NetworkError, certificate_problem
from supervisor_core.host.programs import ProgramError, run_command
from supervisor_core.version import __version__
from supervisor_core.workers.restarts.policy import exit_in_words
from supervisor_core.workers.worker import masked

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from supervisor_core.config.worker_settings import ProbeSettings

MARGIN_SECONDS = 8.0
"""The time for a late program to stop, to be killed, and to have its output read."""

LONGEST_WORDS = 200
LONGEST_NAME = 80
"""The most characters shown of a response, and of a program with its arguments."""

LONGEST_LINE = 16 * 1024
MOST_LINES = 200
"""The limit for the head of a response: servers send a few hundred bytes."""

BODY_BYTES = 16 * 1024
BODY_SECONDS = 0.5
"""The time to read some of the body, which we ignore: a server that is cut off may log an error."""

KEPT_BYTES = 8 * 1024
"""The bytes kept of a program's output; its last line is enough."""

OffLoop = Callable[..., Awaitable[Any]]
"""Calls its first argument with the others in a thread; awaiting it gives the result."""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: ([^\r\n]*))?\r?\n")
_INFORMING = range(100, 200)
_GOOD = range(200, 400)
_TUNNEL = range(200, 300)
_UNQUOTED = "/%:=&?~+!$,;'@()*[]|"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Whether the probe passed, and the response in words without secrets: `it answered 500 Internal Server Error`."""

    ok: bool
    words: str


class _BadAnswer(Exception):
    """The response is bad; the words say why."""


def name_of(config: SupervisorConfig, worker: WorkerSettings, probe: ProbeSettings) -> str:
    """The name of a probe for people: an address without its path, a program without most arguments."""
    if probe.http is not None:
        return str(probe.http)
    if probe.tcp is not None:
        return f"tcp {probe.tcp}"
    words = probe.exec or ()
    shown = [os.path.basename(words[0])]  # noqa: PTH119 (a word, which need not be a path of this system)
    if words[0] == "{python}":  # which program it is says the script or the module
        first = next((number for number, word in enumerate(words[1:], 1) if not word.startswith("-")), 0)
        shown = ["python", *words[1 : first + 1]]
    return one_line(masked(" ".join(config.fill(worker, shown)), config.secrets()), LONGEST_NAME)


async def ask(config: SupervisorConfig, worker: WorkerSettings, probe: ProbeSettings, off_loop: OffLoop) -> ProbeAnswer:
    """Run a probe once. A late response doesn't count; the words for people contain no secret.

    A network probe ends within its timeout, a program within `MARGIN_SECONDS` more, with its whole process group. Only
    a program that can't be started, because its folder is on a drive that hangs, may take longer; the caller must not
    run it again before it has returned.
    """
    try:
        if probe.exec is not None:
            ok, words = await off_loop(_run, config, worker, probe)
        else:
            async with asyncio.timeout(probe.timeout) as bound:
                get = _get(probe, config.network, off_loop, bound) if probe.http else None
                ok, words = await (get or _reach(probe, off_loop))
    except TimeoutError:
        ok, words = False, f"no response within {probe.timeout:g} s"
    except _BadAnswer as answer:
        ok, words = False, str(answer)
    except NetworkError as error:
        ok, words = False, error.message.rstrip(".")
    except ProgramError as error:
        ok, words = False, str(error)
    except OSError as error:
        ok, words = False, _trouble(error)
    except ValueError:  # a name that no resolver takes
        ok, words = False, "the address is invalid"
    return ProbeAnswer(ok, one_line(masked(words, config.secrets()), LONGEST_WORDS))


def _run(config: SupervisorConfig, worker: WorkerSettings, probe: ProbeSettings) -> tuple[bool, str]:
    words = config.fill(worker, probe.exec or ())
    env = config.environment_for(worker)
    ran = run_command(words, cwd=worker.cwd, env=env, timeout=probe.timeout, keep_bytes=KEPT_BYTES)
    if ran.timed_out:
        return False, f"timed out after {probe.timeout:g} s"
    if ran.ok:
        return True, "exited (code 0)"
    said = (ran.errors.strip() or ran.output.strip()).splitlines()
    return False, exit_in_words(ran.exit_code) + (f": {said[-1].strip()}" if said else "")


async def _reach(probe: ProbeSettings, off_loop: OffLoop) -> tuple[bool, str]:
    host, _, port = (probe.tcp or "").rpartition(":")
    async with _connected(host.strip("[]"), int(port), probe.timeout, off_loop):
        return True, "accepts connections"


async def _get(probe: ProbeSettings, network: Network, off_loop: OffLoop, bound: asyncio.Timeout) -> tuple[bool, str]:
    """The response to a GET. A redirect is a response; it isn't followed."""
    url = probe.http.get_secret_value() if probe.http else ""
    parts, proxy = urlsplit(url), urlsplit(network.proxy(url) or "")
    host = _ascii_host(parts)
    tls = await off_loop(network.tls) if "https" in (parts.scheme, proxy.scheme) else None
    first = proxy if proxy.hostname else parts
    first_tls = tls if first.scheme == "https" else None
    door = _ascii_host(first), first.port or PORTS[first.scheme]
    async with AsyncExitStack() as opened:
        reader, writer = await opened.enter_async_context(_connected(*door, probe.timeout, off_loop, first_tls))
        if proxy.hostname and parts.scheme == "https":
            writer.write(_tunnel(parts, host, proxy))
            status, _ = await _head(reader)
            if status not in _TUNNEL:
                raise _BadAnswer(f"the proxy responds with HTTP {status}")
            assert tls is not None  # noqa: S101 (the URL is one of https)
            reader, writer = await opened.enter_async_context(_inside_tunnel(writer, tls, host))
            writer.write(_request(parts, host))
        else:
            writer.write(_request(parts, host, proxy if proxy.hostname else None))
        await writer.drain()
        status, phrase = await _head(reader)
        bound.reschedule(None)  # it was in time
        with suppress(OSError, asyncio.IncompleteReadError):  # a timeout is one of the first
            async with asyncio.timeout(BODY_SECONDS):
                await reader.readexactly(BODY_BYTES)
    return status in _GOOD, f"responded {status} {phrase}".rstrip()


def _request(parts: SplitResult, host: str, proxy: SplitResult | None = None) -> bytes:
    """The request; to a proxy it names the whole URL."""
    target = quote(parts.path or "/", _UNQUOTED) + (f"?{quote(parts.query, _UNQUOTED)}" if parts.query else "")
    lines = [
        f"GET {f'http://{_authority(parts, host)}' if proxy else ''}{target} HTTP/1.1",
        f"Host: {_authority(parts, host)}",
        f"User-Agent: supervisor/{__version__}",
        "Accept: */*",
        "Connection: close",
        *_credentials("Authorization", parts),
    ]
    return _lines(*lines, *(_credentials("Proxy-Authorization", proxy) if proxy else ()))


def _tunnel(parts: SplitResult, host: str, proxy: SplitResult) -> bytes:
    """The request for a tunnel through a proxy."""
    there = _authority(parts, host, PORTS[parts.scheme])
    return _lines(f"CONNECT {there} HTTP/1.1", f"Host: {there}", *_credentials("Proxy-Authorization", proxy))


def _lines(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _authority(parts: SplitResult, host: str, port: int | None = None) -> str:
    name, number = f"[{host}]" if ":" in host else host, parts.port or port
    return f"{name}:{number}" if number else name


def _credentials(header: str, parts: SplitResult) -> tuple[str, ...]:
    if parts.username is None:
        return ()
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return (f"{header}: Basic {b64encode(pair.encode()).decode()}",)


def _ascii_host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return host if host.isascii() else host.encode("idna").decode()


async def _head(reader: asyncio.StreamReader) -> tuple[int, str]:
    """The status of the response, once its head is complete. Informational responses (100, 103) are skipped."""
    status, phrase = 0, ""
    for _ in range(MOST_LINES):
        line = await _line(reader)
        if status == 0:
            match = _STATUS.fullmatch(line)
            if match is None:
                raise _BadAnswer("the response isn't HTTP")
            status, phrase = int(match[1]), (match[2] or b"").decode(errors="replace").strip()
        elif line in (b"\r\n", b"\n"):
            if status not in _INFORMING:
                return status, phrase
            status = 0
    raise _BadAnswer("the response headers are too long")


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        raise _BadAnswer("closed the connection without a response") from None
    except asyncio.LimitOverrunError:
        raise _BadAnswer("the response isn't HTTP") from None


@asynccontextmanager
async def _connected(
    host: str, port: int, seconds: float, off_loop: OffLoop, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the first address of the host that accepts one. It's closed without waiting."""
    reader, writer = await _connect(host, port, seconds, off_loop, tls)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@asynccontextmanager
async def _inside_tunnel(
    tunnel: asyncio.StreamWriter, tls: ssl.SSLContext, host: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TLS connection in a proxy's tunnel, with a reader of its own: what the proxy has sent into the other one could
    pose as the server's response."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(LONGEST_LINE)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport = await loop.start_tls(tunnel.transport, protocol, tls, server_hostname=host)
    assert transport is not None  # noqa: S101 (only without a transport to begin with)
    protocol.connection_made(transport)
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, reader, loop)
    finally:
        transport.abort()


async def _connect(
    host: str, port: int, seconds: float, off_loop: OffLoop, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    addresses = await _addresses(host, port, off_loop)
    for number, address in enumerate(addresses):
        share = (deadline - loop.time()) / (len(addresses) - number)
        try:
            async with asyncio.timeout(share):
                return await asyncio.open_connection(
                    address, port, limit=LONGEST_LINE, ssl=tls, server_hostname=host if tls else None
                )
        except OSError:  # a timeout is one as well
            if number == len(addresses) - 1:
                raise
    raise _BadAnswer(f"{host} has no address")


async def _addresses(host: str, port: int, off_loop: OffLoop) -> list[str]:
    """The addresses of a host. The loop's own resolver would use a thread that the program waits for at its end."""
    with suppress(ValueError):
        return [str(ipaddress.ip_address(host))]
    try:
        found = await off_loop(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except socket.gaierror as error:
        raise _BadAnswer(f"{host} can't be resolved: {error.strerror}") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _trouble(error: OSError) -> str:
    if rejected := certificate_problem(error):
        return rejected
    if type(error).__module__ == "ssl":
        return f"TLS failed: {getattr(error, 'reason', None) or error}"
    reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return f"connection failed: {reason}"
