"""How watched workers are at the moment: a live look, as `status` takes and judges it, at these alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from supervisor_core.adapters import starts
from supervisor_core.domain.baking import Watched
from supervisor_core.domain.health import WorkerState
from supervisor_core.runtime.observing import Seen
from supervisor_core.runtime.overview import worker_documents
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.past import past_lives
from supervisor_core.runtime.reconciler import Reconciler
from supervisor_core.runtime.senses import Senses


def watched(parts: Parts, reconciler: Reconciler, senses: Senses, worker_ids: Collection[str]) -> dict[str, Watched]:
    """Those of them that are configured. In a thread: it blocks as a look does."""
    config = parts.host.config
    looked = senses.look([config.workers[each] for each in sorted(worker_ids) if each in config.workers])
    shown = {document["id"]: document for document in worker_documents(parts, reconciler, looked)}
    return {seen.worker.id: _watched(seen, shown[seen.worker.id], config.state_dir) for seen in looked}


def _watched(seen: Seen, document: Mapping[str, Any], state_dir: Path) -> Watched:
    """What is so of one that runs, the judgement of its health says; of any other, its actor knows more."""
    state = WorkerState(document["state"])
    runs = state is WorkerState.RUNNING
    # One from the future was noted by a clock that was wrong.
    again = [moment for moment in starts.noted(state_dir, seen.worker.id) if moment <= seen.at]
    return Watched(
        state,
        seen.verdict.health,
        seen.verdict.fine if runs else bool(document["fine"]),
        _at_rest(seen) or (seen.verdict.reason if runs else str(document["reason"])),
        started_at=seen.observation.started_at,
        paused=seen.pause is not None,
        wanted=seen.worker.enabled and not seen.worker.quarantined,
        given_up=seen.quarantine is not None,
        started_again_at=max(again, default=None),
        lives=tuple(past_lives(state_dir, seen.worker.id)[0]),
    )


def _at_rest(seen: Seen) -> str:
    """Why a person wants it at rest; empty where nobody does."""
    if seen.pause is not None:
        return str(seen.pause)
    if not seen.worker.enabled:
        return "not enabled in the configuration any more"
    return "quarantined in the configuration" if seen.worker.quarantined else ""
