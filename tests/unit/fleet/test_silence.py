"""When a host is silent: after three messages that it should have sent, and all that fell silent together at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor_core.fleet.hub.hosts import KnownHost, newly_silent
from supervisor_core.fleet.questions import PresenceMessage

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)


@dataclass
class Link:
    """The hub's connection: up for an hour, and just heard."""

    connected: bool = True
    since: datetime = LONG_AGO
    heard_at: datetime = NOW


def host(name: str, quiet: float, every: float | None = None) -> KnownHost:
    """A host that has said nothing for so many seconds; one that was never heard says no interval."""
    known = KnownHost(name, NOW - timedelta(seconds=quiet))
    if every is not None:
        known.heard_at = known.since
        known.presence = PresenceMessage(name, NOW, "ledger", {}, 1, "life", "1.0", every)
    return known


def silent(*hosts: KnownHost, link: Any = None) -> list[str]:
    link = link or Link()
    return [each.name for each in newly_silent(hosts, link)]


@pytest.mark.parametrize(("every", "still", "quiet"), [(None, 14, 16), (5, 14, 16), (30, 89, 91), (1, 2.9, 3.1)])
def test_a_host_is_silent_after_three_of_its_own_intervals(every: float | None, still: float, quiet: float) -> None:
    assert silent(host("web-1", still, every)) == []
    assert silent(host("web-1", quiet, every)) == ["web-1"]


def test_those_that_fell_silent_together_are_told_together() -> None:
    assert silent(host("web-1", 16, 5), host("web-2", 12, 5)) == [], "the second one is about to be"
    assert silent(host("web-1", 16, 5), host("web-2", 16, 5)) == ["web-1", "web-2"]
    assert silent(host("web-1", 21, 5), host("web-2", 12, 5)) == ["web-1"], "it waits for one interval at most"
    assert silent(host("web-1", 16, 5), host("web-2", 12, 30)) == ["web-1"], "the second one speaks seldom"


def test_a_hub_that_is_cut_off_says_nothing_about_its_hosts() -> None:
    assert silent(host("web-1", 600, 5), link=Link(connected=False)) == []
    assert silent(host("web-1", 600, 5), link=Link(since=NOW - timedelta(seconds=5))) == []
