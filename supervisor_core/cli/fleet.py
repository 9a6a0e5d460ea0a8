"""`supervisor fleet`: sets up the hub of a fleet, lets hosts join it, lists, checks and revokes them."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.cli.host import load_config, shell_issuer
from supervisor_core.cli.table import folded_table, terminal_width
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.common.times import format_ago
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.problems import HUB
from supervisor_core.config.raw import read_raw
from supervisor_core.daemon.environment import opened_ledger, prepare_state_dir
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members.checks import check_fleet
from supervisor_core.fleet.members.joining import JoinToken, apply_members, remove_member, request_join
from supervisor_core.fleet.members.membership import FleetHost, FleetMembers
from supervisor_core.fleet.members.setup import add_section, host_section, hub_section
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.server import (
    CA,
    ServerPlan,
    make_certificates,
    own_authority,
    write_server,
    write_users,
)
from supervisor_core.fleet.transport.subjects import HUB_INBOX, checked_name
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.files import write_atomically

CONNECT_SECONDS = 10.0
HEAD = ("HOST", "STATE", "LAST SEEN", "VERSION", "WORKERS")


def run(options: argparse.Namespace) -> int:
    """Run one action."""
    actions = {
        "init": _init,
        "invite": _invite,
        "join": _join,
        "list": _list,
        "revoke": _revoke,
        "doctor": _doctor,
    }
    needed = {"invite": "NAME", "join": "TOKEN", "revoke": "NAME"}.get(options.what, "")
    if bool(needed) != bool(options.name):
        call = f"supervisor fleet {options.what} {needed}".rstrip()
        raise UsageError(f"This isn't how `fleet {options.what}` is called.", remedy=f"Run `{call}`.")
    return actions[options.what](options)


def _init(options: argparse.Namespace) -> int:
    """Make the hub's key, the server's configuration and its certificates; what exists is kept."""
    raw = read_raw(options.config)
    if "fleet" not in raw.data:
        if not options.url:
            raise UsageError("Name the server: `supervisor fleet init --url tls://hub.example.org:4222`.")
        add_section(Path(raw.path), hub_section(options.url))
    config = load_supervisor_config(options.config)
    if config.fleet.role != HUB or config.fleet.credentials is None:
        raise UsageError(
            f"The section fleet in {config.path} isn't a hub's.",
            remedy="Set fleet.role: hub, fleet.url and fleet.credentials.",
        )
    prepare_state_dir(config)
    plan = ServerPlan.of(config)
    there = config.fleet.credentials.exists()
    keys = KeyPair.read(config.fleet.credentials) if there else KeyPair.create(config.fleet.credentials)
    configuration = write_server(plan)
    if plan.tls and not (plan.folder / CA).exists():
        make_certificates(plan.folder, str(urlsplit(config.fleet.url.get_secret_value().split(",")[0]).hostname))
    with opened_ledger(config) as ledger:
        write_users(plan.folder, keys.public_key, *FleetMembers(ledger).users(datetime.now(UTC)))
    print(f"This host is the hub {config.supervisor.id}. Its public key is {keys.public_key}.")
    print(f"Server configuration: {configuration}")
    runs = "The daemon starts it." if config.fleet.server.run else f"Start it with `nats-server -c {configuration}`."
    print(f"Next: restart the daemon. {runs}" if config.fleet.server.run else f"Next: {runs} Then restart the daemon.")
    print("Then let a host join: `supervisor fleet invite NAME`.")
    return SUCCESS


def _invite(options: argparse.Namespace) -> int:
    with _members_of_hub(options) as (config, members, keys):
        ca = config.fleet.ca or own_authority(config.fleet_folder)
        invite = members.invite(checked_name(options.name), shell_issuer(), datetime.now(UTC))
        asyncio.run(_apply(config, members, keys))
        certificate = ca.read_text() if ca else ""
        token = JoinToken.of(invite, config.fleet.url.get_secret_value(), certificate, keys.public_key)
    print(f"On {options.name}, run this within 60 minutes. Keep it secret: it works once, for anyone who has it.")
    print(f"supervisor fleet join {token.as_text()}")
    return SUCCESS


def _join(options: argparse.Namespace) -> int:
    token = JoinToken.from_text(options.name)
    path = Path(options.config or "config.yaml").absolute()
    folder = path.parent / "fleet"
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    seed, ca = folder / "host.seed", folder / CA if token.ca else None
    if ca is not None:
        write_atomically(ca, token.ca)
    keys = KeyPair.read(seed) if seed.exists() else KeyPair.create(seed)
    asyncio.run(request_join(token, keys, ca))
    section = host_section(token.url, token.hub_key, ca=ca is not None)
    print(f"{token.host} has joined the fleet.")
    if add_section(path, section, name=token.host):
        print(f"Added to {path}:\n\n{section}")
        print("Next: `supervisor config check`, then restart the daemon.")
    else:
        print(f"{path} has settings of its own for these. Change it to this:\n")
        print(f"supervisor:\n  id: {token.host}\nslack:\n  enabled: false\n{section}")
    return SUCCESS


def _list(options: argparse.Namespace) -> int:
    config = load_config(options.config)
    with opened_ledger(config) as ledger:
        hosts = FleetMembers(ledger).hosts()
    if options.json:
        print(json.dumps([_document(each) for each in hosts], indent=2))
        return SUCCESS
    if not hosts:
        print("No host has joined. Let one join: `supervisor fleet invite NAME`.")
        return SUCCESS
    print(folded_table(HEAD, [_row(each) for each in hosts], terminal_width()))
    return SUCCESS


def _revoke(options: argparse.Namespace) -> int:
    with _members_of_hub(options) as (config, members, keys):
        revoked = members.revoke(options.name, shell_issuer(), datetime.now(UTC))
        asyncio.run(_apply(config, members, keys, removed=options.name))
    print(f"Revoked {options.name}. It's cut off." if revoked else f"{options.name} was revoked before.")
    return SUCCESS


def _doctor(options: argparse.Namespace) -> int:
    config = load_config(options.config)
    findings = asyncio.run(check_fleet(config))
    for each in findings:
        print(f"{'ok  ' if each.ok else 'FAIL'}  {each.name}: {each.message}")
        if each.remedy:
            print(f"      {each.remedy}")
    return SUCCESS if all(each.ok for each in findings) else FAILURE


@contextmanager
def _members_of_hub(options: argparse.Namespace) -> Iterator[tuple[SupervisorConfig, FleetMembers, KeyPair]]:
    config = load_config(options.config)
    if config.fleet.role != HUB or config.fleet.credentials is None:
        raise UsageError(
            "This host isn't the hub of a fleet.", remedy="Run this on the hub, or `supervisor fleet init`."
        )
    keys = KeyPair.read(config.fleet.credentials)
    with opened_ledger(config) as ledger:
        yield config, FleetMembers(ledger), keys


async def _apply(config: SupervisorConfig, members: FleetMembers, keys: KeyPair, removed: str = "") -> None:
    """Bring the server's users up to date; the rows are already."""
    fleet, folder = config.fleet, config.fleet_folder
    ca = fleet.ca or own_authority(folder)
    url = fleet.url.get_secret_value()
    async with FleetConnection(url, keys, name="shell", inbox=HUB_INBOX, ca=ca) as connection:
        try:
            await connection.wait_connected(CONNECT_SECONDS)
        except SupervisorError:
            hosts, invites = members.users(datetime.now(UTC))
            write_users(folder, keys.public_key, hosts, invites)
            raise
        if removed:
            await remove_member(connection, members, folder, keys.public_key, removed)
        else:
            await apply_members(connection, members, folder, keys.public_key)


def _row(host: FleetHost) -> list[str]:
    seen = format_ago(host.last_seen_at, datetime.now(UTC)) if host.last_seen_at else "never"
    return [host.host_id, str(host.state), seen, host.version or "-", ", ".join(host.workers) or "-"]


def _document(host: FleetHost) -> dict[str, object]:
    return {
        "host": host.host_id,
        "state": str(host.state),
        "last_seen_at": host.last_seen_at and host.last_seen_at.isoformat(),
        "joined_at": host.joined_at.isoformat(),
        "revoked_at": host.revoked_at and host.revoked_at.isoformat(),
        "version": host.version,
        "workers": list(host.workers),
        "public_key": host.public_key,
    }
