"""Network namespaces of Linux: each member of a fleet in one of its own, connected by a virtual switch.

The names of the namespaces carry the PID of the test. What a killed test left is removed by the next one.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

VARIABLE = "SUPERVISOR_TESTS_NETWORK"
"""The environment variable that has a daemon of a test enter this namespace when it begins."""

FOLDER = Path("/run/netns")
NAME = re.compile(r"supervisor-(\d+)-.+")
CLONE_NEWNET = 0x40000000
SWITCH, SWITCH_MAC = "switch", "02:00:00:00:00:01"
"""Without an address of its own, it would get another one whenever a cable is pulled."""

SUBNET = "10.77.0"
CENTER_ADDRESS = f"{SUBNET}.1"
FIRST_HOST = 11


class NamespacesUnavailable(Exception):
    """This user or machine can't have network namespaces."""


def use_if_wanted(environ: Mapping[str, str]) -> None:
    """Enter the namespace in this program, which has no threads yet, if whoever started it wants that."""
    if path := environ.get(VARIABLE):
        _enter(Path(path))


@contextmanager
def entered(path: Path) -> Iterator[None]:
    """Be in a namespace with this thread: sockets and programs that it makes meanwhile stay there."""
    with Path("/proc/thread-self/ns/net").open("rb") as own:
        _enter(path)
        try:
            yield
        finally:
            _set_namespace(own.fileno())


class Namespaces:
    """A center with a switch, and hosts that each have a cable to it."""

    def __init__(self, center: str, hosts: Sequence[str]) -> None:
        self.center = center
        self._hosts = tuple(hosts)

    def path(self, member: str) -> Path:
        """The file that stands for the namespace of a member."""
        return FOLDER / _name(member)

    def unplug(self, host: str) -> None:
        """Lose every packet between a host and the switch. Neither side is told: its own link stays up."""
        _ip("-n", _name(self.center), "link", "set", self._port(host), "nomaster")

    def plug_in(self, host: str) -> None:
        """Connect a host to the switch."""
        _ip("-n", _name(self.center), "link", "set", self._port(host), "master", SWITCH)

    def make(self) -> None:
        """Make all of them, connected; `NamespacesUnavailable` where that can't be had."""
        remove_left_over()
        center = _name(self.center)
        self._add(self.center)
        _ip("-n", center, "link", "add", SWITCH, "address", SWITCH_MAC, "type", "bridge")
        _ip("-n", center, "addr", "add", f"{CENTER_ADDRESS}/24", "dev", SWITCH)
        _ip("-n", center, "link", "set", SWITCH, "up")
        for number, host in enumerate(self._hosts, FIRST_HOST):
            self._add(host)
            port, there = self._port(host), _name(host)
            _ip("-n", center, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", there)
            _ip("-n", there, "addr", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            _ip("-n", there, "link", "set", "eth0", "up")
            _ip("-n", center, "link", "set", port, "up")
            self.plug_in(host)

    def remove(self) -> None:
        """Remove all of them, with their cables and whatever still runs in them."""
        for member in (self.center, *self._hosts):
            _remove(_name(member))

    def _add(self, member: str) -> None:
        _ip("netns", "add", _name(member))
        _ip("-n", _name(member), "link", "set", "lo", "up")

    def _port(self, host: str) -> str:
        return f"port{self._hosts.index(host)}"


@contextmanager
def made(center: str, hosts: Sequence[str]) -> Iterator[Namespaces]:
    """Namespaces for these members, removed afterwards; `NamespacesUnavailable` where there can't be any."""
    if reason := missing():
        raise NamespacesUnavailable(reason)
    namespaces = Namespaces(center, hosts)
    try:
        namespaces.make()
        yield namespaces
    finally:
        namespaces.remove()


def missing() -> str:
    """Why there can't be any; empty if that must be tried."""
    has_all = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("ip") is not None
    return "" if has_all else "network namespaces need Linux, root and the program `ip`"


def remove_left_over() -> None:
    """Remove the namespaces of tests that were killed, and what they left running there."""
    for name in os.listdir(FOLDER) if FOLDER.is_dir() else ():
        found = NAME.fullmatch(name)
        if found and not psutil.pid_exists(int(found[1])):
            _remove(name)


def _name(member: str) -> str:
    return f"supervisor-{os.getpid()}-{member}"


def _remove(name: str) -> None:
    if not (FOLDER / name).exists():
        return
    inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
    for pid in map(int, inside.split()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise NamespacesUnavailable(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")


def _enter(path: Path) -> None:
    with path.open("rb") as namespace:
        _set_namespace(namespace.fileno())


def _set_namespace(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
