"""The metrics reference, from the metrics themselves."""

from __future__ import annotations

from datetime import UTC, datetime

from supervisor_core.web.facts import LedgerFacts, WebFacts
from supervisor_core.web.metrics import BUCKETS, CHAT_FIGURES, CommandTally, metrics_of
from tests.reference.markdown import code, fill, table


def page() -> str:
    facts = WebFacts("", datetime.now(UTC), [], (), "", LedgerFacts(), chat=dict.fromkeys(CHAT_FIGURES, 0.0))
    found = metrics_of(facts, CommandTally())
    rows = [
        (code(_name(each.name, each.type)), each.type, ", ".join(map(code, _labels(each))), each.documentation)
        for each in found
    ]
    limits = ", ".join(f"{each:g}" for each in BUCKETS)
    return fill("metrics.md", {"metrics": table(("metric", "type", "labels", "meaning"), rows), "buckets": limits})


def _name(name: str, kind: str) -> str:
    return {"counter": f"{name}_total", "info": f"{name}_info"}.get(kind, name)


def _labels(metric: object) -> tuple[str, ...]:
    return tuple(getattr(metric, "_labelnames", ()))
