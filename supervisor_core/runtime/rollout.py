"""A configuration that restarts several workers: announced, and halted where one does not live with it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from supervisor_core.domain.planning import Action, Why

AT_REST = frozenset({Why.PAUSED, Why.NOT_ENABLED, Why.NOT_CONFIGURED, Why.ENDED})
"""Why a worker may rightly not run."""

log = logging.getLogger(__name__)


class Rollout:
    """Of the newest version; an older one is forgotten with the next."""

    def __init__(self) -> None:
        self._version = 0
        self._restarted: set[str] = set()
        self._announced: frozenset[str] = frozenset()
        self.waits_for: frozenset[str] = frozenset()
        """Who holds the others back: once they run, it goes on."""

    def held_back(self, version: int, actions: Mapping[str, Action], running: Collection[str]) -> dict[str, Action]:
        """The actions, without the restarts for this version while one that was restarted for it is not `running`,
        unless somebody wants it to rest."""
        if version != self._version:
            self._version, self._restarted, self._announced, self.waits_for = version, set(), frozenset(), frozenset()
        changed = frozenset(each for each, action in actions.items() if action.why is Why.CHANGED)
        self._restarted -= {each for each, action in actions.items() if action.why in AT_REST}
        failed = sorted(self._restarted - set(running) - changed)
        if changed and failed:
            self._tell_halt(failed, changed)
            return {each: action for each, action in actions.items() if each not in changed}
        if not failed:  # else this look was not at those who wait, and they go on to do so
            self.waits_for = frozenset()
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
        if self.waits_for != frozenset(failed):
            words = "%s does not run with version %d of the configuration, so with older settings go on: %s"
            log.error(words, ", ".join(failed), self._version, ", ".join(sorted(changed)))
        self.waits_for = frozenset(failed)
