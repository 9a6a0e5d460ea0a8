"""The identity and liveness of a process: the part that is quick enough to import for `status`."""

from __future__ import annotations

import sys

from supervisor_core.host.process_facts.facts import Liveness, ProcessFacts, ProcessIdentity

if sys.platform == "linux":
    from supervisor_core.host.process_facts import linux as platform
else:
    from supervisor_core.host.process_facts import portable as platform


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this PID now; None if there is none.

    `PermissionError` if it exists and the system hides it.
    """
    found = platform.facts(pid)
    if found is None or platform.is_thread(pid):
        return None
    return identity_of(found)


def identity_of(found: ProcessFacts) -> ProcessIdentity:
    """The identity of a process of this boot."""
    return ProcessIdentity(found.pid, found.start, platform.boot_id())


def state(identity: ProcessIdentity) -> Liveness:
    """The state of exactly this process. If the system doesn't say, it's unverifiable, never gone."""
    try:
        if identity.boot_id and identity.boot_id != platform.boot_id():
            return Liveness.GONE
        found = platform.facts(identity.pid)
        known_boot = identity.boot_id == platform.boot_id()
    except OSError:
        return Liveness.UNVERIFIABLE
    if found is None or found.start != identity.start:
        return Liveness.GONE
    return life_of(found) if known_boot else Liveness.UNVERIFIABLE


def life_of(found: ProcessFacts) -> Liveness:
    if found.state in {"Z", "X", "x"}:
        return Liveness.ZOMBIE
    return Liveness.FROZEN if found.state == "T" else Liveness.ALIVE


__all__ = ["identify", "identity_of", "life_of", "platform", "state"]
