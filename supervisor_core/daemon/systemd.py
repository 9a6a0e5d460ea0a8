"""Notices to systemd: the daemon is up, well, restarting in place, or about to stop. Elsewhere nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping

from supervisor_core.common.errors import describe
from supervisor_core.common.service import wait_until
from supervisor_core.common.text import one_line

log = logging.getLogger(__name__)

VARIABLE = "NOTIFY_SOCKET"

WATCHDOG_USEC, WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"

MICROSECONDS = 1_000_000

LONGEST_STATUS = 300  # characters: `systemctl status` shows it in a line


def ready() -> None:
    """The daemon is up and its services run."""
    _send("READY=1")


def stopping() -> None:
    """The daemon is about to end."""
    _send("STOPPING=1")


def reloading() -> None:
    """The daemon restarts in place, and says `ready` again."""
    _send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def alive() -> None:
    """Ping the watchdog once, before a while without pings."""
    _send("WATCHDOG=1")


def status(words: str) -> None:
    """Set the line that `systemctl status` shows; empty words remove it."""
    _send(f"STATUS={one_line(words, LONGEST_STATUS)}")


class Watchdog:
    """Pings systemd's watchdog twice in each interval, while the daemon is healthy.

    It runs in the daemon's loop, so a hanging loop sends no pings. systemd then restarts the daemon; the workers keep
    running.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        given = os.environ if environ is None else environ
        self.every_seconds = _half_the_interval(given)
        """The interval of watchdog pings; 0 without a watchdog."""
        self._problem = ""

    async def run(self, stopping: asyncio.Event, well: Callable[[], str]) -> None:
        """Ping until the daemon stops; `well` returns why it is unhealthy. Returns immediately without a watchdog."""
        while self.every_seconds and not stopping.is_set():
            self._look(well)
            await wait_until(None, stopping, self.every_seconds)

    def _look(self, well: Callable[[], str]) -> None:
        try:
            problem = well()
        except Exception as error:  # noqa: BLE001 (who can't say that all is well is not well)
            problem = describe(error)
        if not problem:
            alive()
        if bool(problem) != bool(self._problem):
            self._tell(problem)
        self._problem = problem

    @staticmethod
    def _tell(problem: str) -> None:
        if problem:
            log.error("watchdog pings are stopped so that systemd restarts the daemon: %s", problem)
        else:
            log.info("watchdog pings are resumed: all services are healthy")
        status(f"unhealthy: {problem}" if problem else "")


def _half_the_interval(environ: Mapping[str, str]) -> float:
    """0 where no watchdog waits, or where it waits for another process: ours may have inherited the variables."""
    try:
        microseconds = int(environ.get(WATCHDOG_USEC, ""))
        pid = int(environ.get(WATCHDOG_PID) or os.getpid())
    except ValueError:
        return 0.0
    return microseconds / MICROSECONDS / 2 if microseconds > 0 and pid == os.getpid() else 0.0


def _send(word: str) -> None:
    address = os.environ.get(VARIABLE, "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.setblocking(False)  # a listener whose buffer is full is not waited for
        channel.sendto(word.encode("utf-8", "replace"), name)
