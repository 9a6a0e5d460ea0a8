"""The log hears once that a running worker is unwell, why, and when it is well again. Of its end, others tell."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from supervisor_core.runtime.observing import Seen

log = logging.getLogger(__name__)


def tell_changes(earlier: Mapping[str, Seen], looked: Mapping[str, Seen]) -> None:
    """Compare these looks with the ones before."""
    for worker_id, seen in looked.items():
        before = earlier.get(worker_id)
        about = {"worker_id": worker_id}
        if seen.found.identity is None:
            continue
        was_unwell = before is not None and before.found.identity is not None and not before.verdict.fine
        if seen.verdict.fine and was_unwell:
            log.info("%s is well again: %s", worker_id, seen.verdict.reason, extra=about)
        same = before is not None and before.verdict.health is seen.verdict.health
        if not seen.verdict.fine and not (was_unwell and same):
            log.warning("%s is %s: %s", worker_id, seen.verdict.health, seen.verdict.reason, extra=about)
