"""Telling systemd that the daemon is up, or about to go; elsewhere nothing happens."""

from __future__ import annotations

import contextlib
import os
import socket

VARIABLE = "NOTIFY_SOCKET"


def ready() -> None:
    """The daemon is up and its services run."""
    _send("READY=1")


def stopping() -> None:
    """The daemon is about to end."""
    _send("STOPPING=1")


def _send(word: str) -> None:
    address = os.environ.get(VARIABLE, "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(word.encode(), name)
