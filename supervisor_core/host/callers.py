"""The person behind a call from a shell, as far as the kernel knows.

The login uid is set when somebody logs in and stays the same through `sudo` and `su`. Where it isn't set, as in most
containers, the person is the user. Only a call as root may name another person, in `SUDO_USER`.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

from supervisor_core.common.errors import RefusedError
from supervisor_core.host.permissions import user_name
from supervisor_core.host.process_facts.identity import age_seconds, identify, since_boot

UNSET = 0xFFFFFFFF
"""The login uid of a process that no login started."""


def person_name(login_uid: int | None, uid: int, sudo_user: str = "") -> str:
    """The person behind a process with these users; `sudo_user` is what its own environment says."""
    if login_uid is not None:
        return user_name(login_uid)
    if uid == 0 and sudo_user:
        import pwd

        with suppress(KeyError, ValueError):
            return pwd.getpwnam(sudo_user).pw_name
    return user_name(uid)


def own_person() -> str:
    if not hasattr(os, "getuid"):
        import getpass

        return getpass.getuser()
    return person_name(login_uid(os.getpid()), os.getuid(), sudo_user())


def sudo_user() -> str:
    return os.environ.get("SUDO_USER", "")


def peer_person(connection: socket.socket, connected_at: float, sudo_user: str) -> str | None:
    """The person at the other end of a Unix socket that was connected at this time since boot.

    None where the system doesn't name the peer; `RefusedError` if it has ended, so that its pid may be another's.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None or connection.family != getattr(socket, "AF_UNIX", None):
        return None
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    if pid == 0:  # a process of another container: its user is all that the kernel says
        return person_name(None, uid, sudo_user)
    before = identify(pid)
    login = login_uid(pid)
    is_same = before is not None and identify(pid) == before
    if before is None or not is_same or since_boot() - age_seconds(before.start) > connected_at + 0.1:
        raise RefusedError("The process that sent this has ended. Nothing was done.")
    return person_name(login, uid, sudo_user)


def login_uid(pid: int) -> int | None:
    """The uid that this process was logged in with; None if it isn't set or can't be read."""
    try:
        with open(f"/proc/{pid}/loginuid", "rb") as file:  # noqa: PTH123 (pathlib is slow to import)
            uid = int(file.read())
    except (OSError, ValueError):
        return None
    return None if uid == UNSET else uid
