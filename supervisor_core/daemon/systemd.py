"""Notices to systemd: the daemon is up, well, restarting in place, or about to stop. Elsewhere nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable

from supervisor_core.common.errors import describe
from supervisor_core.common.service import wait_until
from supervisor_core.common.text import one_line

log = logging.getLogger(__name__)

LONGEST_STATUS = 300  # characters: `systemctl status` shows it in a line


def notify(message: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.setblocking(False)  # a listener whose buffer is full is not waited for
        channel.sendto(message.encode("utf-8", "replace"), name)


def ready() -> None:
    notify("READY=1")


def stopping() -> None:
    notify("STOPPING=1")


def reloading() -> None:
    """The daemon restarts in place, and says `ready` again."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def alive() -> None:
    """Ping the watchdog."""
    notify("WATCHDOG=1")


def watchdog_seconds() -> float:
    """Half of the watchdog's interval; 0 if none waits, or if it waits for another process that we inherited from."""
    try:
        microseconds = int(os.environ.get("WATCHDOG_USEC", ""))
        pid = int(os.environ.get("WATCHDOG_PID") or os.getpid())
    except ValueError:
        return 0.0
    return microseconds / 1_000_000 / 2 if microseconds > 0 and pid == os.getpid() else 0.0


async def run_watchdog(ended: asyncio.Event, find_problem: Callable[[], str]) -> None:
    """Ping twice in each interval while the daemon is healthy; returns immediately without a watchdog.

    It runs in the daemon's loop, so a hanging loop sends no pings. systemd then restarts the daemon; the workers keep
    running.
    """
    seconds, reported = watchdog_seconds(), ""
    while seconds and not ended.is_set():
        try:
            problem = find_problem()
        except Exception as error:  # noqa: BLE001 (a health check that fails is unhealthy)
            problem = describe(error)
        if not problem:
            alive()
        if problem and not reported:
            log.error("watchdog pings are stopped so that systemd restarts the daemon: %s", problem)
        elif reported and not problem:
            log.info("watchdog pings are resumed: all services are healthy")
        if bool(problem) != bool(reported):
            notify(f"STATUS={one_line(f'unhealthy: {problem}', LONGEST_STATUS) if problem else ''}")
        reported = problem
        await wait_until(None, ended, seconds)
