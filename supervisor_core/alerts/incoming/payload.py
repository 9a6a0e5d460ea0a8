"""Reads the requests of Alertmanager's webhook (version 4). It refuses what it doesn't know, and cuts long texts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from supervisor_core.alerts.outside.formats import ALERTMANAGER_NAME, CLIENT
from supervisor_core.common.text import flatten, one_line, storable
from supervisor_core.workers.conditions.rules import Severity

MOST_ALERTS = 200
"""In one request."""

NAME, SUMMARY, LABEL = 100, 300, 200
"""Characters that are kept."""

FIRING, RESOLVED = "firing", "resolved"
WARNINGS = frozenset({"warning", "warn", "info", "information", "informational", "notice", "none", "low", "debug"})
"""Values of the label `severity` that may wait until morning. Any other one, and none, is critical."""

SEPARATOR = ". "
"""Between the name of an alert and its summary, in the reason of its condition."""

_FINGERPRINT = re.compile(r"[0-9a-f]{1,64}")


class PayloadError(Exception):
    """The request isn't one of Alertmanager; the message says why."""


@dataclass(frozen=True, slots=True)
class ForeignAlert:
    fingerprint: str
    name: str
    summary: str
    severity: Severity
    worker: str
    """The value of the label that names a worker, known here or not; empty without one."""
    firing: bool
    begun_at: datetime
    ended_at: datetime | None = None


def parse_payload(body: bytes, worker_label: str, now: datetime) -> list[ForeignAlert]:
    """The alerts of a request. Our own, which came back, are left out: they would come back again and again."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise PayloadError("the body isn't JSON") from None
    alerts = document.get("alerts") if isinstance(document, Mapping) else None
    if not isinstance(alerts, list) or document.get("version") != "4":
        raise PayloadError("the body isn't a webhook of Alertmanager, version 4")
    if len(alerts) > MOST_ALERTS:
        raise PayloadError(f"more than {MOST_ALERTS} alerts in one request; set max_alerts in Alertmanager")
    found = [_alert(each, worker_label, now) for each in alerts]
    return [alert for alert in found if alert is not None]


def _alert(given: Any, worker_label: str, now: datetime) -> ForeignAlert | None:  # noqa: ANN401 (any JSON)
    if not isinstance(given, Mapping):
        raise PayloadError("an alert isn't an object")
    labels, annotations = _texts(given.get("labels"), "labels"), _texts(given.get("annotations") or {}, "annotations")
    if labels.get("alertname") == ALERTMANAGER_NAME and labels.get("job") == CLIENT:
        return None
    status = given.get("status")
    if status not in (FIRING, RESOLVED):
        raise PayloadError("an alert's status is neither firing nor resolved")
    begun = min(_moment(given.get("startsAt")) or now, now)
    ended = _moment(given.get("endsAt")) if status == RESOLVED else None
    return ForeignAlert(
        fingerprint=_fingerprint(given.get("fingerprint"), labels),
        name=_line(labels.get("alertname") or "Alert without a name", NAME),
        summary=_line(annotations.get("summary") or annotations.get("description") or _listed(labels), SUMMARY),
        severity=_severity(labels.get("severity", "")),
        worker=labels.get(worker_label, "")[:LABEL],
        firing=status == FIRING,
        begun_at=begun,
        ended_at=max(begun, min(ended or now, now)) if status == RESOLVED else None,
    )


def _texts(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise PayloadError(f"an alert's {name} aren't texts")
    return {str(key): str(each) for key, each in value.items()}


def _fingerprint(given: object, labels: Mapping[str, str]) -> str:
    """Alertmanager's own, or one of the labels: they identify an alert."""
    if isinstance(given, str) and _FINGERPRINT.fullmatch(given):
        return given
    return hashlib.sha256(json.dumps(labels, sort_keys=True).encode()).hexdigest()[:16]


def _severity(given: str) -> Severity:
    return Severity.WARNING if given.strip().lower() in WARNINGS else Severity.CRITICAL


def _moment(given: object) -> datetime | None:
    """A time; None if it's missing or in year 1, which means the same."""
    if given in (None, ""):
        return None
    try:
        found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(given)))
        return None if found.tzinfo is None or found.year < 1970 else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise PayloadError("an alert's time isn't valid") from None


def _listed(labels: Mapping[str, str]) -> str:
    """The labels that tell an alert without a summary from others."""
    return ", ".join(
        f"{name}={value}" for name, value in sorted(labels.items()) if name not in ("alertname", "severity")
    )


def _line(text: str, most: int) -> str:
    return one_line(storable(flatten(text)), most)


def name_in(reason: str) -> tuple[str, str]:
    """The name and the summary of Alertmanager's alert, from the reason of its condition."""
    name, _, summary = reason.partition(SEPARATOR)
    return name, summary
