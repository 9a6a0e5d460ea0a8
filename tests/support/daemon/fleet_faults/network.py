"""The network of a fleet in a test: real namespaces where they can be had, else relays between plain processes.

Both can lose everything on a host's line without a word to either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from tests.support.daemon.fleet_faults import namespaces
from tests.support.daemon.fleet_faults.namespaces import CENTER_ADDRESS, Namespaces, NamespacesUnavailable
from tests.support.daemon.host_lines import HostLine

LOOPBACK = "127.0.0.1"
HUB = "hub"


class Line(Protocol):
    """The line between a member and the NATS server."""

    @property
    def url(self) -> str:
        """The server's address for this member."""

    def fall_silent(self, *senders: str) -> None:
        """Lose everything, or what these senders (`near`, `far`) say. Nobody is told."""

    def cut(self) -> None:
        """End it, and have new connections fail."""

    def mend(self) -> None:
        """Let everything through."""


class Network(Protocol):
    """The connections of a fleet."""

    words: str
    """The kind, for people."""
    address: str
    """Where the NATS server listens."""

    def inside(self, member: str) -> AbstractContextManager[None]:
        """Sockets and programs that this thread makes meanwhile are this member's."""

    def environ(self, member: str) -> Mapping[str, str]:
        """The environment that has a daemon be this member."""

    def lines(self, port: int) -> AbstractContextManager[Mapping[str, Line]]:
        """The line of each member to the NATS server on this port."""


class Loopback:
    """Plain processes, each connected through a relay."""

    address = LOOPBACK

    def __init__(self, hosts: Sequence[str], words: str = "plain processes and relays") -> None:
        self.words = words
        self._hosts = hosts

    def inside(self, member: str) -> AbstractContextManager[None]:
        del member
        return nullcontext()

    def environ(self, member: str) -> Mapping[str, str]:
        del member
        return {}

    @contextmanager
    def lines(self, port: int) -> Iterator[dict[str, HostLine]]:
        with ExitStack() as ending:
            yield {name: ending.enter_context(HostLine(port)) for name in (HUB, *self._hosts)}


@dataclass(frozen=True)
class Cable:
    """The cable between a host's namespace and the switch."""

    url: str
    host: str
    namespaces: Namespaces

    def fall_silent(self, *senders: str) -> None:
        del senders  # a cable that is out loses what both sides say
        self.namespaces.unplug(self.host)

    def cut(self) -> None:
        self.fall_silent()

    def mend(self) -> None:
        self.namespaces.plug_in(self.host)


class Switched:
    """The hub, its server and Slack in one namespace, and each host in one of its own."""

    words = "network namespaces"
    address = CENTER_ADDRESS

    def __init__(self, hosts: Sequence[str], made: Namespaces) -> None:
        self._hosts = hosts
        self._namespaces = made

    def inside(self, member: str) -> AbstractContextManager[None]:
        return namespaces.entered(self._namespaces.path(member))

    def environ(self, member: str) -> Mapping[str, str]:
        return {namespaces.VARIABLE: str(self._namespaces.path(member))}

    @contextmanager
    def lines(self, port: int) -> Iterator[dict[str, Cable]]:
        url = f"nats://{CENTER_ADDRESS}:{port}"
        yield {name: Cable(url, name, self._namespaces) for name in (HUB, *self._hosts)}


@contextmanager
def best_network(hosts: Sequence[str]) -> Iterator[Network]:
    """Namespaces where this user may make them, else relays; its `words` say which, and why."""
    with ExitStack() as ending:
        try:
            made = ending.enter_context(namespaces.made(HUB, hosts))
        except NamespacesUnavailable as error:
            yield Loopback(hosts, f"plain processes and relays: {error}")
            return
        yield Switched(hosts, made)
