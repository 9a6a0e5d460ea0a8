"""Named places where a test ends the process, to learn what a `kill -9` does there.

The test starts the program with `reach` replaced. Unarmed, `reach` is an empty function, and nothing that is shipped
can arm it: no setting, no environment variable, no message. Call it through the module, so that replacing it is enough:
`crashpoints.reach("jobs_t.started:after")`.
"""

from __future__ import annotations


def reach(name: str) -> None:
    """Pass by the place with this name."""
