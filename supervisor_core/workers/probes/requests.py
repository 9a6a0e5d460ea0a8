"""One probe of a worker: an HTTP request, a connection, or a program, and the response in words.

Network probes run on the event loop and end with their timeout, whatever the other side does. Blocking parts (a
program, name resolution, loading certificates) run off the loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from supervisor_core.common.text import one_line
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.network import Network, NetworkError, certificate_problem
from supervisor_core.host.programs import ProgramError, run_command
from supervisor_core.version import __version__
from supervisor_core.workers.restarts.policy import exit_in_words
from supervisor_core.workers.worker import masked

if TYPE_CHECKING:
    from supervisor_core.config.worker_settings import ProbeSettings

MARGIN_SECONDS = 8.0
"""The time for a late program to stop, to be killed, and to have its output read."""

LONGEST_WORDS = 200
LONGEST_NAME = 80
"""The most characters shown of a response, and of a program with its arguments."""

KEPT_BYTES = 8 * 1024
"""The bytes kept of a program's output; its last line is enough."""

OffLoop = Callable[..., Awaitable[Any]]
"""Calls its first argument with the others in a thread; awaiting it gives the result."""

_GOOD = range(200, 400)


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
            async with asyncio.timeout(probe.timeout):
                get = _get(probe, config.network, off_loop) if probe.http else None
                ok, words = await (get or _connect(probe, off_loop))
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


async def _connect(probe: ProbeSettings, off_loop: OffLoop) -> tuple[bool, str]:
    name, _, port = (probe.tcp or "").rpartition(":")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + probe.timeout
    addresses = await _addresses(name.strip("[]"), int(port), off_loop)
    for number, address in enumerate(addresses, 1):
        try:
            async with asyncio.timeout((deadline - loop.time()) / (len(addresses) - number + 1)):
                _, writer = await asyncio.open_connection(address, int(port))
            writer.transport.abort()
            break
        except OSError:  # a timeout is one as well
            if number == len(addresses):
                raise
    return True, "accepts connections"


async def _get(probe: ProbeSettings, network: Network, off_loop: OffLoop) -> tuple[bool, str]:
    """The response to a GET. A redirect is a response; it isn't followed."""
    import aiohttp  # late: a host without such a probe need not load it

    class Resolver(aiohttp.abc.AbstractResolver):
        """aiohttp's own uses a thread that the program waits for at its end."""

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[aiohttp.abc.ResolveResult]:
            return [
                {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": 0}
                for address in await _addresses(host, port, off_loop)
            ]

        async def close(self) -> None:
            """There's nothing to close."""

    url = probe.http.get_secret_value() if probe.http else ""
    tls = await off_loop(network.tls_for, url)
    connector = aiohttp.TCPConnector(resolver=Resolver(), force_close=True, ssl=tls or True)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, headers={"User-Agent": f"supervisor/{__version__}"}) as session,
            session.get(url, proxy=network.proxy(url), allow_redirects=False) as response,
        ):
            return response.status in _GOOD, f"responded {response.status} {response.reason or ''}".rstrip()
    except aiohttp.ClientHttpProxyError as error:
        raise _BadAnswer(f"the proxy responds with HTTP {error.status}") from None
    except aiohttp.ClientResponseError:
        raise _BadAnswer("the response isn't HTTP") from None
    except aiohttp.ServerDisconnectedError:
        raise _BadAnswer("closed the connection without a response") from None


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
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return f"TLS failed: {getattr(error.__cause__ or error, 'reason', None) or error}"
    reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return f"connection failed: {reason}"
