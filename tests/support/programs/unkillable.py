"""Starts the command line on a system where KILL ends nobody: what hangs inside the kernel, simulated at the port.

`python -m tests.support.programs.unkillable run` is `supervisor run`, but no signal that it sends ends anything.
"""

from __future__ import annotations

import sys

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.processes import stopping as processes_stop


def send(identity: ProcessIdentity, number: int) -> bool:
    """Signals go nowhere."""
    return True


if __name__ == "__main__":
    setattr(processes_stop, "send", send)  # noqa: B010 (the door that is replaced is not for others to use)
    processes_stop.KILL_WAIT_SECONDS = 0.1
    processes_stop.REST_GRACE_SECONDS = 0.1
    from supervisor_core.cli import main

    sys.exit(main(sys.argv[1:]))
