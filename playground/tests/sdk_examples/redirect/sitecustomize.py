"""Python imports this at its start: Slack's client then calls the playground, and ports are free ones of this machine.

It is how an example runs unchanged. `SLACK_API_URL` is the address of the Web API; `EXAMPLE_PORTS` says which port
is to be used instead of which, as `3000=41000,8080=41001`.
"""

from __future__ import annotations

import os
import socket
from typing import Any

api_url = os.environ.get("SLACK_API_URL")
ports = dict(each.split("=") for each in os.environ.get("EXAMPLE_PORTS", "").split(",") if each)


def redirect(client: Any) -> None:
    """Give the constructor of a client another default address."""
    official, constructor = client.BASE_URL, client.__init__
    client.BASE_URL = api_url
    for name in ("__defaults__", "__kwdefaults__"):
        given = getattr(constructor, name)
        if isinstance(given, tuple):
            setattr(constructor, name, tuple(api_url if each == official else each for each in given))
        elif given:
            setattr(constructor, name, {key: api_url if each == official else each for key, each in given.items()})


def bind(self: socket.socket, address: Any) -> None:
    """Listen on the other port, and on this machine alone."""
    if isinstance(address, tuple) and str(address[1]) in ports:
        address = ("::1" if self.family == socket.AF_INET6 else "127.0.0.1", int(ports[str(address[1])]))
    bind_as_asked(self, address)


bind_as_asked = socket.socket.bind
if ports:
    socket.socket.bind = bind  # type: ignore[assignment, method-assign]
if api_url:
    try:
        from slack_sdk.web.async_base_client import AsyncBaseClient
        from slack_sdk.web.base_client import BaseClient
    except ImportError:  # another program of the same environment
        pass
    else:
        redirect(BaseClient)
        redirect(AsyncBaseClient)
