"""The command line as somebody who logged in as another user than the one that it runs as."""

from __future__ import annotations

import os
import pwd
import subprocess

from supervisor_core.host.callers import login_uid, own_person
from tests.support.homes import SUPERVISOR

_SET = 'echo "$0" > /proc/self/loginuid && exec "$@"'


def logged_in_as(name: str) -> tuple[list[str], str]:
    """The program, and the name of its person: this one where we may log somebody in or are root, else our own."""
    uid = str(pwd.getpwnam(name).pw_uid)
    program = ["sh", "-c", _SET, uid]
    if subprocess.run([*program, "true"], capture_output=True, check=False).returncode == 0:
        return [*program, *SUPERVISOR], name
    if os.getuid() == 0 and login_uid(os.getpid()) is None:
        return ["env", f"SUDO_USER={name}", *SUPERVISOR], name
    return list(SUPERVISOR), own_person()
