"""Being told to stop by a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from supervisor_core.host.process_facts.signals import catch_stop_signals


@pytest.fixture
def ignoring_hangups() -> Iterator[None]:
    """As `nohup` starts a program."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def hearing_terminations() -> Iterator[None]:
    """As a program is usually started, however the tests were."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("hearing_terminations")
def test_a_signal_is_noted_and_ends_nothing() -> None:
    with catch_stop_signals() as told:
        assert not told
        signal.raise_signal(signal.SIGTERM)
        assert told.by == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("ignoring_hangups", "hearing_terminations")
def test_a_signal_that_is_ignored_stays_ignored() -> None:
    with catch_stop_signals() as told:
        signal.raise_signal(signal.SIGHUP)
        assert not told
        signal.raise_signal(signal.SIGTERM)
        assert told.by == "SIGTERM", "the others are heard"
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
