"""Who sits at this shell. Whoever can run commands here holds the host already: this is a name, not a proof."""

from __future__ import annotations

import os

from supervisor_core.domain.command import Issuer


def shell_issuer() -> Issuer:
    """`cli:anna`, by the user that the system knows, not by what the environment claims."""
    try:
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        import getpass

        name = getpass.getuser() if os.name == "nt" else str(os.getuid())
    return Issuer(f"cli:{name}", name)
