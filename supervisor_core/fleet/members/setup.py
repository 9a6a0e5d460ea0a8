"""The section `fleet` of a configuration, added at the end of the file so that everything else stays as it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import check_raw
from supervisor_core.config.raw import MAX_BYTES, parse_raw
from supervisor_core.host.descriptors import set_mode
from supervisor_core.host.files import read_limited, write_atomically


def hub_section(url: str) -> str:
    """The section of a hub. Its server listens on the port of its URL, on all addresses unless the URL is local."""
    parts = urlsplit(url)
    address = parts.hostname if parts.hostname in ("127.0.0.1", "localhost") else "0.0.0.0"  # noqa: S104 (for hosts)
    return (
        f"fleet:\n  role: hub\n  url: {json.dumps(url)}\n  credentials: fleet/hub.seed\n"
        f'  server:\n    run: true\n    listen: "{address}:{parts.port or 4222}"\n'
    )


def host_section(url: str, hub_key: str, *, ca: bool) -> str:
    """The section of a host."""
    certificate = "  ca: fleet/ca.pem\n" if ca else ""
    return (
        f"fleet:\n  role: host\n  url: {json.dumps(url)}\n  credentials: fleet/host.seed\n{certificate}"
        f"  hub_key: {hub_key}\n"
    )


def new_host(name: str) -> str:
    """A configuration without workers, for a host that has none yet."""
    return f"supervisor:\n  id: {name}\nslack:\n  enabled: false  # the hub runs the bot\n"


def add_section(path: Path, section: str, name: str = "") -> bool:
    """Add the section to the configuration, or make one for the host `name`.

    False, with nothing changed, if the file has such a section, is another host's, or would have mistakes then.
    """
    there = path.exists()
    text = read_limited(path, MAX_BYTES).decode() if there else new_host(name)
    try:
        if "fleet" in parse_raw(text, str(path)).data:
            return False
        extended = f"{text.rstrip()}\n\n{section}"
        config = check_raw(parse_raw(extended, str(path)))
    except ConfigError:
        return False
    if name and config.supervisor.id != name:
        return False
    mode = path.stat().st_mode & 0o777 if there else 0o600
    write_atomically(path, extended)
    with path.open("rb") as written:
        set_mode(written.fileno(), mode)
        os.fsync(written.fileno())
    return True
