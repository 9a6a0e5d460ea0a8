"""The identity of a process, and whether it still lives: the quick part, which `status` can afford to import."""

from __future__ import annotations

import sys

from supervisor_core.host.process_facts.facts import Liveness, ProcessFacts, ProcessIdentity

if sys.platform == "linux":
    from supervisor_core.host.process_facts import linux as platform
else:
    from supervisor_core.host.process_facts import portable as platform


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this PID now; None where there is none.

    `PermissionError` where one exists that the system does not let us see.
    """
    found = platform.facts(pid)
    if found is None or platform.is_thread(pid):
        return None
    return identity_of(found)


def identity_of(found: ProcessFacts) -> ProcessIdentity:
    """The identity of a process of this boot."""
    return ProcessIdentity(found.pid, found.start, platform.boot_id())


def state(identity: ProcessIdentity) -> Liveness:
    """Whether exactly this process lives. What the system does not tell is unverifiable, never gone."""
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
    """What the kernel's letter means for us."""
    if found.state in {"Z", "X", "x"}:
        return Liveness.ZOMBIE
    return Liveness.FROZEN if found.state == "T" else Liveness.ALIVE


__all__ = ["identify", "identity_of", "life_of", "platform", "state"]
