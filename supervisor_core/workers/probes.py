"""The probes of workers: HTTP requests, connections and programs, repeated and counted for exactly one process.

Network probes run on the event loop and end with their timeout, whatever the other side does. Blocking parts (a
program, name resolution, loading certificates) run off the loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from supervisor_core.common.errors import describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking
from supervisor_core.common.text import one_line
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import ProbeSettings, WorkerSettings
from supervisor_core.host.network import Network, NetworkError, certificate_problem
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import age_seconds, since_boot
from supervisor_core.host.programs import ProgramError, run_command
from supervisor_core.version import __version__
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.restarts.policy import exit_in_words
from supervisor_core.workers.worker import masked

MARGIN_SECONDS = 8.0
"""The time for a late program to stop, to be killed, and to have its output read."""

LONGEST_WORDS = 200
LONGEST_NAME = 80
"""The most characters shown of a response, and of a program with its arguments."""

KEPT_BYTES = 8 * 1024
"""The bytes kept of a program's output; its last line is enough."""

THREADS = 1024
"""The threads of a prober's `Blocking`. A program whose folder hangs keeps its thread, one for each probe."""

PROGRAMS_AT_ONCE, PROGRAMS_AGAIN_AT_ONCE = 24, 8
CONNECTIONS_AT_ONCE, CONNECTIONS_AGAIN_AT_ONCE = 200, 100
"""The probes at the same time, of those that passed last and of those that failed. Separate limits keep probes that
hang from delaying the others."""

SPREAD = 0.25
"""The part of an interval over which the first probes are spread, so that 500 workers aren't probed at once."""

EXCUSED = 0.5
"""A failure doesn't count if nothing was scheduled here for this part of its timeout."""

END_SECONDS = 2.0
"""The time at the end for programs under way; most take milliseconds."""

log = logging.getLogger(__name__)

_GOOD = range(200, 400)

OffLoop = Callable[..., Awaitable[Any]]
"""Calls its first argument with the others in a thread; awaiting it gives the result."""


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
    return one_line(masked(" ".join(config.fill(worker, shown)), config.secrets), LONGEST_NAME)


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
    return ProbeAnswer(ok, one_line(masked(words, config.secrets), LONGEST_WORDS))


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
    headers = {"User-Agent": f"supervisor/{__version__}"}
    connector = aiohttp.TCPConnector(resolver=Resolver(), force_close=True, ssl=tls or True)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers, timeout=aiohttp.ClientTimeout()) as session,
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


@dataclass(slots=True)
class Tally:
    """The failures in a row of one probe; `needed` of them count as failing."""

    name: str
    needed: int
    failures: int = 0
    words: str = ""

    def count(self, answer: ProbeAnswer) -> None:
        self.failures, self.words = 0 if answer.ok else self.failures + 1, answer.words

    def failing(self) -> str:
        """The failure in words; empty if it passes."""
        if self.failures < self.needed:
            return ""
        often = "failed" if self.failures == 1 else f"failed {self.failures} times in a row"
        return f"probe {self.name} {often}: {self.words}"


def first_wait(worker_id: str, number: int, interval: float, age_seconds: float) -> float:
    """The seconds until the first probe: one interval after the process started, plus a different part for each."""
    own = crc32(f"{worker_id}/{number}".encode()) / 2**32
    return max(0.0, interval - max(0.0, age_seconds)) + own * SPREAD * interval


@dataclass(slots=True, eq=False)
class _Watch:
    """A probed process. Other threads only read `failing`: the probes that failed often enough, in words."""

    worker: WorkerSettings
    identity: ProcessIdentity
    tallies: list[Tally]
    failing: str = ""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Prober:
    """Probes while `run` runs. `failing` may be called from any thread; the others from the event loop.

    `blocking` must be its own, with `THREADS` threads. `lag` returns the time in which nothing was scheduled within
    some seconds: a failure while we didn't run ourselves isn't counted.
    """

    def __init__(
        self,
        parts: DaemonContext,
        blocking: Blocking,
        lag: Callable[[float], float] = lambda _: 0.0,
        changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._parts = parts
        self._blocking = blocking
        self._lag = lag
        self._changed = changed
        self._watches: dict[str, _Watch] = {}
        self._running = False
        self._asking: set[asyncio.Task[ProbeAnswer]] = set()
        self._lanes = {
            (True, True): asyncio.Semaphore(PROGRAMS_AT_ONCE),
            (True, False): asyncio.Semaphore(PROGRAMS_AGAIN_AT_ONCE),
            (False, True): asyncio.Semaphore(CONNECTIONS_AT_ONCE),
            (False, False): asyncio.Semaphore(CONNECTIONS_AGAIN_AT_ONCE),
        }

    def worker(self, worker_id: str, worker: WorkerSettings, identity: ProcessIdentity | None) -> None:
        there = self._watches.get(worker_id)
        if there is not None and there.identity == identity and there.worker.probes == worker.probes:
            there.worker = worker
            return
        self.forget(worker_id)
        if identity is None or not worker.probes:
            return
        config = self._parts.host.config
        tallies = [Tally(name_of(config, worker, probe), probe.failures) for probe in worker.probes]
        self._watches[worker_id] = watch = _Watch(worker, identity, tallies)
        if self._running:
            self._begin(watch)

    def forget(self, worker_id: str) -> None:
        """Stop probing the worker and forget its results."""
        watch = self._watches.pop(worker_id, None)
        for task in watch.tasks if watch else ():
            task.cancel()

    def failing(self, worker_id: str, identity: ProcessIdentity) -> str:
        """The failure of exactly this process's probes, in words; empty if none is known."""
        watch = self._watches.get(worker_id)
        return watch.failing if watch and watch.identity == identity else ""

    async def run(self, stopping: asyncio.Event) -> None:
        """Probe until asked to stop. It only leaves programs, in their threads, that don't end within `END_SECONDS`."""
        self._running = True
        try:
            for watch in self._watches.values():
                self._begin(watch)
            await stopping.wait()
        finally:
            self._running = False
            tasks = [task for watch in self._watches.values() for task in watch.tasks]
            for watch in self._watches.values():
                watch.tasks.clear()
            for task in tasks:
                task.cancel()
            await _ended(tasks, END_SECONDS)
            await _ended(self._asking, END_SECONDS)

    def _begin(self, watch: _Watch) -> None:
        for number, probe in enumerate(watch.worker.probes):
            work = self._repeat(watch, number, probe)
            watch.tasks.append(asyncio.create_task(work, name=f"probe {watch.worker.id}/{number}"))

    async def _repeat(self, watch: _Watch, number: int, probe: ProbeSettings) -> None:
        age = age_seconds(watch.identity.start)
        await asyncio.sleep(first_wait(watch.worker.id, number, probe.interval, age))
        loop = asyncio.get_running_loop()
        asked: asyncio.Task[ProbeAnswer] | None = None
        while True:
            async with self._lanes[probe.exec is not None, watch.tallies[number].failures == 0]:
                begun, since = loop.time(), since_boot()
                if asked is None:
                    asked = asyncio.create_task(ask(self._parts.host.config, watch.worker, probe, self._blocking))
                    self._asking.add(asked)
                    asked.add_done_callback(self._asking.discard)
                try:  # one that doesn't return must not keep its slot
                    await asyncio.wait({asked}, timeout=probe.timeout + MARGIN_SECONDS)
                except asyncio.CancelledError:
                    if probe.exec is None:  # a program goes on in its thread, and had better be seen to its end
                        asked.cancel()
                    raise
            if not asked.done():
                answer = ProbeAnswer(False, "the probe is stuck: its folder doesn't respond")
            elif error := asked.exception():
                log.error("a probe failed unexpectedly", exc_info=error)
                answer, asked = ProbeAnswer(False, f"unexpected error: {describe(error)}"), None
            else:
                answer, asked = asked.result(), None
            if answer.ok or self._lag(since_boot() - since) < EXCUSED * probe.timeout:
                self._count(watch, number, answer)
            await asyncio.sleep(max(0.0, probe.interval - (loop.time() - begun)))

    def _count(self, watch: _Watch, number: int, answer: ProbeAnswer) -> None:
        watch.tallies[number].count(answer)
        before, watch.failing = watch.failing, "; ".join(filter(None, (tally.failing() for tally in watch.tallies)))
        worker_id, failing = watch.worker.id, watch.failing
        if bool(failing) == bool(before):
            return
        self._changed(worker_id)
        if failing:
            about = LogEvent.PROBE_FAILED.extra(worker_id=worker_id, reason=failing)
            log.warning("%s: %s", worker_id, failing, extra=about)
        else:
            log.info("%s: all probes pass again", worker_id, extra=LogEvent.PROBE_PASSED.extra(worker_id=worker_id))


async def _ended(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    """Wait for these tasks up to a limit, and then cancel them."""
    left = set(tasks)
    if left:
        _, left = await asyncio.wait(left, timeout=seconds)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
