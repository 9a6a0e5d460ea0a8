"""The environment that a worker gets: a few harmless variables of ours, and what is configured for it."""

from __future__ import annotations

import os
from collections.abc import Mapping

SAFE = frozenset({"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR"})
SAFE_PREFIX = "LC_"
# Without these, programs of Windows do not even start.
WINDOWS = frozenset(
    {
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "WINDIR",
        "COMSPEC",
        "PATHEXT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "HOMEDRIVE",
        "HOMEPATH",
        "APPDATA",
        "LOCALAPPDATA",
        "PROGRAMDATA",
        "NUMBER_OF_PROCESSORS",
        "PROCESSOR_ARCHITECTURE",
    }
)


def safe_part(environ: Mapping[str, str], *, windows: bool = os.name == "nt") -> dict[str, str]:
    """What of an environment any worker may see. Everything else may be a secret, so it is left out."""
    allowed = SAFE | WINDOWS if windows else SAFE
    return {
        name: value
        for name, value in environ.items()
        if (name.upper() if windows else name) in allowed or name.startswith(SAFE_PREFIX)
    }
