"""A configuration that restarts several workers: announced, and halted where one does not live with it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.planning import Action, Why

DOWN = frozenset({WorkerState.BACKING_OFF, WorkerState.QUARANTINED, WorkerState.STUCK})
"""Where a worker is found that does not live with its new settings."""

log = logging.getLogger(__name__)


class Rollout:
    """Of the newest version; an older one is forgotten with the next."""

    def __init__(self) -> None:
        self._version = 0
        self._restarted: set[str] = set()
        self._announced: frozenset[str] = frozenset()
        self._halted = False

    def held_back(self, version: int, actions: Mapping[str, Action], down: Collection[str]) -> dict[str, Action]:
        """The actions, without the restarts for this version while one that was restarted for it is `down`."""
        if version != self._version:
            self._version, self._restarted, self._announced, self._halted = version, set(), frozenset(), False
        changed = frozenset(each for each, action in actions.items() if action.why is Why.CHANGED)
        failed = sorted(self._restarted & set(down) - changed)
        if changed and failed:
            self._tell_halt(failed, changed)
            return {each: action for each, action in actions.items() if each not in changed}
        self._halted = False
        self._announce(changed)
        self._restarted |= changed
        return dict(actions)

    def _announce(self, changed: frozenset[str]) -> None:
        """Beforehand, and each set of workers once."""
        if len(changed) > 1 and not changed <= self._announced:
            self._announced |= changed
            words = "version %d of the configuration restarts %d workers, one by one: %s"
            log.warning(words, self._version, len(changed), ", ".join(sorted(changed)))

    def _tell_halt(self, failed: Collection[str], changed: Collection[str]) -> None:
        if not self._halted:
            words = "%s does not live with version %d of the configuration, so %s goes on with what it runs with"
            log.error(words, ", ".join(failed), self._version, ", ".join(sorted(changed)))
        self._halted = True
