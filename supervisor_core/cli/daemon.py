"""What a shell says to the daemon of its host, where there is one."""

from __future__ import annotations

from supervisor_core.config import SupervisorConfig
from supervisor_core.runtime.control_client import NotRunningError, UnresponsiveError, ask


def wake(config: SupervisorConfig) -> bool:
    """Have it look at what is new; False where none runs. One that does not answer in time finds it by itself."""
    try:
        ask(str(config.state_dir), {"do": "wake"})
    except NotRunningError:
        return False
    except UnresponsiveError:
        return True
    return True
