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
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
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

LONGEST_MESSAGE = 200
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


class ProbeAnswer(NamedTuple):
    """Whether the probe passed, and the response in words without secrets: `it answered 500 Internal Server Error`."""

    ok: bool
    message: str


class _BadAnswer(Exception):
    """The response is bad; the message says why."""


def name_of(config: SupervisorConfig, worker: WorkerSettings, probe: ProbeSettings) -> str:
    """The name of a probe for people: an address without its path, a program without most arguments."""
    if probe.http is not None:
        return str(probe.http)
    if probe.tcp is not None:
        return f"tcp {probe.tcp}"
    command = probe.exec or ()
    name = [os.path.basename(command[0])]  # noqa: PTH119 (it need not be a path of this system)
    if command[0] == "{python}":  # which program it is says the script or the module
        first = next((number for number, text in enumerate(command[1:], 1) if not text.startswith("-")), 0)
        name = ["python", *command[1 : first + 1]]
    return one_line(masked(" ".join(config.fill(worker, name)), config.secrets), LONGEST_NAME)


async def ask(config: SupervisorConfig, worker: WorkerSettings, probe: ProbeSettings, off_loop: OffLoop) -> ProbeAnswer:
    """Run a probe once. A late response doesn't count; the words for people contain no secret.

    A network probe ends within its timeout, a program within `MARGIN_SECONDS` more, with its whole process group. Only
    a program that can't be started, because its folder is on a drive that hangs, may take longer; the caller must not
    run it again before it has returned.
    """
    ok = False
    try:
        if probe.exec is not None:
            ok, message = await off_loop(_run, config, worker, probe)
        else:
            async with asyncio.timeout(probe.timeout):
                get = _get(probe, config.network, off_loop) if probe.http else None
                ok, message = await (get or _connect(probe, off_loop))
    except TimeoutError:
        message = f"no response within {probe.timeout:g} s"
    except NetworkError as error:
        message = error.message.rstrip(".")
    except (_BadAnswer, ProgramError) as error:
        message = str(error)
    except OSError as error:
        message = _explain(error)
    except ValueError:  # a name that no resolver takes
        message = "the address is invalid"
    return ProbeAnswer(ok, one_line(masked(message, config.secrets), LONGEST_MESSAGE))


def _run(config: SupervisorConfig, worker: WorkerSettings, probe: ProbeSettings) -> tuple[bool, str]:
    command, env = config.fill(worker, probe.exec or ()), config.environment_for(worker)
    ran = run_command(command, cwd=worker.cwd, env=env, timeout=probe.timeout, keep_bytes=KEPT_BYTES)
    if ran.timed_out:
        return False, f"timed out after {probe.timeout:g} s"
    if ran.ok:
        return True, "exited (code 0)"
    output = (ran.errors.strip() or ran.output.strip()).splitlines()
    return False, exit_in_words(ran.exit_code) + (f": {output[-1].strip()}" if output else "")


async def _connect(probe: ProbeSettings, off_loop: OffLoop) -> tuple[bool, str]:
    name, _, port = (probe.tcp or "").rpartition(":")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + probe.timeout
    addresses = await _addresses(name.strip("[]"), int(port), off_loop)
    for number, address in enumerate(addresses):
        try:
            async with asyncio.timeout((deadline - loop.time()) / (len(addresses) - number)):
                _, writer = await asyncio.open_connection(address, int(port))
            writer.transport.abort()
            break
        except OSError:  # a timeout is one as well
            if address == addresses[-1]:
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
        records = await off_loop(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except socket.gaierror as error:
        raise _BadAnswer(f"{host} can't be resolved: {error.strerror}") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in records))


def _explain(error: OSError) -> str:
    if rejected := certificate_problem(error):
        return rejected
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return f"TLS failed: {getattr(error.__cause__ or error, 'reason', None) or error}"
    reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return f"connection failed: {reason}"


def first_wait(worker_id: str, number: int, interval: float, age_seconds: float) -> float:
    """The seconds until the first probe: one interval after the process started, plus a different part for each."""
    own = crc32(f"{worker_id}/{number}".encode()) / 2**32
    return max(0.0, interval - max(0.0, age_seconds)) + own * SPREAD * interval


@dataclass(slots=True, eq=False)
class _Probe:
    settings: ProbeSettings
    name: str
    failures: int = 0
    """In a row; so many as the settings say count as failing."""
    message: str = ""

    def failing(self) -> str:
        """The failure in words; empty if it passes."""
        if self.failures < self.settings.failures:
            return ""
        often = "failed" if self.failures == 1 else f"failed {self.failures} times in a row"
        return f"probe {self.name} {often}: {self.message}"


@dataclass(slots=True, eq=False)
class _Watch:
    """A probed process. Other threads only read `failing`: the probes that failed often enough, in words."""

    worker: WorkerSettings
    identity: ProcessIdentity
    probes: list[_Probe]
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
        self._answers: set[asyncio.Task[ProbeAnswer]] = set()
        self._limits = {
            (True, True): asyncio.Semaphore(PROGRAMS_AT_ONCE),
            (True, False): asyncio.Semaphore(PROGRAMS_AGAIN_AT_ONCE),
            (False, True): asyncio.Semaphore(CONNECTIONS_AT_ONCE),
            (False, False): asyncio.Semaphore(CONNECTIONS_AGAIN_AT_ONCE),
        }
        """By whether it's a program, and whether it passed last."""

    def worker(self, worker_id: str, worker: WorkerSettings, identity: ProcessIdentity | None) -> None:
        """Probe this process of the worker from now on."""
        watch = self._watches.get(worker_id)
        if watch is not None and watch.identity == identity and watch.worker.probes == worker.probes:
            watch.worker = worker
            return
        self.forget(worker_id)
        if identity is not None and worker.probes:
            config = self._parts.host.config
            probes = [_Probe(settings, name_of(config, worker, settings)) for settings in worker.probes]
            self._watches[worker_id] = watch = _Watch(worker, identity, probes)
            if self._running:
                self._start(watch)

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
                self._start(watch)
            await stopping.wait()
        finally:
            self._running = False
            tasks: set[asyncio.Task[Any]] = {task for watch in self._watches.values() for task in watch.tasks}
            for watch in self._watches.values():
                watch.tasks.clear()
            for task in tasks:
                task.cancel()
            tasks |= self._answers
            if tasks:
                _, unfinished = await asyncio.wait(tasks, timeout=END_SECONDS)
                for task in unfinished:
                    task.cancel()
                await asyncio.wait(tasks)

    def _start(self, watch: _Watch) -> None:
        for number, probe in enumerate(watch.probes):
            work = self._repeat(watch, number, probe)
            watch.tasks.append(asyncio.create_task(work, name=f"probe {watch.worker.id}/{number}"))

    async def _repeat(self, watch: _Watch, number: int, probe: _Probe) -> None:
        settings, loop = probe.settings, asyncio.get_running_loop()
        age = age_seconds(watch.identity.start)
        await asyncio.sleep(first_wait(watch.worker.id, number, settings.interval, age))
        task: asyncio.Task[ProbeAnswer] | None = None
        while True:
            async with self._limits[settings.exec is not None, probe.failures == 0]:
                started, since = loop.time(), since_boot()
                if task is None:
                    task = asyncio.create_task(ask(self._parts.host.config, watch.worker, settings, self._blocking))
                    self._answers.add(task)
                    task.add_done_callback(self._answers.discard)
                try:  # one that doesn't return must not keep its slot
                    await asyncio.wait({task}, timeout=settings.timeout + MARGIN_SECONDS)
                except asyncio.CancelledError:
                    if settings.exec is None:  # a program goes on in its thread, and had better be seen to its end
                        task.cancel()
                    raise
            if not task.done():
                answer = ProbeAnswer(False, "the probe is stuck: its folder doesn't respond")
            elif error := task.exception():
                log.error("a probe failed unexpectedly", exc_info=error)
                answer, task = ProbeAnswer(False, f"unexpected error: {describe(error)}"), None
            else:
                answer, task = task.result(), None
            if answer.ok or self._lag(since_boot() - since) < EXCUSED * settings.timeout:
                probe.failures, probe.message = 0 if answer.ok else probe.failures + 1, answer.message
                self._update(watch)
            await asyncio.sleep(max(0.0, settings.interval - (loop.time() - started)))

    def _update(self, watch: _Watch) -> None:
        before, watch.failing = watch.failing, "; ".join(filter(None, (probe.failing() for probe in watch.probes)))
        worker_id, failing = watch.worker.id, watch.failing
        if failing and not before:
            about = LogEvent.PROBE_FAILED.extra(worker_id=worker_id, reason=failing)
            log.warning("%s: %s", worker_id, failing, extra=about)
        elif before and not failing:
            log.info("%s: all probes pass again", worker_id, extra=LogEvent.PROBE_PASSED.extra(worker_id=worker_id))
        if bool(failing) != bool(before):
            self._changed(worker_id)
