"""Named places where the machine may lose power. Nothing happens there, unless a test arms one from outside.

A test that wants to know what a `kill -9` does at a place starts the program with `reach` replaced by a
function that ends the process at that name. Unarmed it costs one call of an empty function, and nothing that
is shipped can arm it: no setting, no environment variable, no message.

Call it as `crashpoints.reach("jobs_t.started:after")`, through the module, so that replacing it is enough.
"""

from __future__ import annotations


def reach(name: str) -> None:
    """Pass by the place with this name."""
