"""Alerts on their way through one transaction: seen, judged, told."""

from __future__ import annotations

from typing import NamedTuple

from supervisor_core.domain.alerts import Alert, Decision


class Pair(NamedTuple):
    """An alert as it stood, nothing where it is new, and as it is after what was seen."""

    before: Alert | None
    after: Alert


class Judged(NamedTuple):
    """The same, with what is decided about it."""

    before: Alert | None
    after: Alert
    decision: Decision
    quiet: bool = False
    """Whether somebody wants it quiet."""


class Told(NamedTuple):
    """What was decided about one alert, for the log."""

    alert: Alert
    decision: Decision
