"""A fifth of the times after which a silent line, host or server is given up, for daemons of tests about just that.

In full (`make faults`) these tests wait as long as a real fleet does.
"""

from __future__ import annotations

from collections.abc import Mapping

from supervisor_core.fleet.hub import hosts
from supervisor_core.fleet.questions import USUAL_SECONDS
from supervisor_core.fleet.transport import connection, streams

VARIABLE = "SUPERVISOR_TESTS_SHORT_SILENCE"
ENVIRON = {VARIABLE: "1"}

SHARE = 0.2
PRESENCE = {"presence_seconds": USUAL_SECONDS * SHARE}
"""The setting of the hosts of such a test."""

SHORTENED = (
    (connection, "PING_SECONDS"),
    (connection, "PATIENCE_SECONDS"),
    (connection, "CONNECT_SECONDS"),
    (connection, "LONGEST_RETRY_SECONDS"),
    (hosts, "USUAL_SECONDS"),
    (hosts, "CUT_OFF_SECONDS"),
    (streams, "ACKNOWLEDGE_SECONDS"),
)


def use_if_wanted(environ: Mapping[str, str]) -> None:
    """Shorten them in this program, if whoever started it wants that."""
    if VARIABLE in environ:
        for module, name in SHORTENED:
            setattr(module, name, type(getattr(module, name))(getattr(module, name) * SHARE))
