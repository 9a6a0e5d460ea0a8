"""`supervisor fleet`: sets up the hub of a fleet, lets hosts join it, lists, checks and revokes them."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.cli.host import load_config, shell_issuer
from supervisor_core.cli.output import print_json, print_table
from supervisor_core.common.errors import ConfigError, RefusedError, SupervisorError, UsageError
from supervisor_core.common.times import format_ago, from_text
from supervisor_core.config.load import SupervisorConfig, check_raw
from supervisor_core.config.problems import HUB
from supervisor_core.config.raw import find_config, read_raw
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger, prepare_state_dir
from supervisor_core.doctor.daemon import observe_daemon
from supervisor_core.doctor.fleet import check_fleet
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import (
    FleetHost,
    FleetMembers,
    HostState,
    JoinRefused,
    JoinToken,
    apply_members,
    request_join,
)
from supervisor_core.fleet.setup import plan_host, plan_hub
from supervisor_core.fleet.transport.connection import SECURE, FleetConnection
from supervisor_core.fleet.transport.server import (
    CA,
    find_program,
    make_certificates,
    own_authority,
    write_accounts,
    write_server,
)
from supervisor_core.fleet.transport.streams import remove_host
from supervisor_core.fleet.transport.subjects import HUB_INBOX, checked_name
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.files import read_limited, write_atomically
from supervisor_core.host.network import is_loopback
from supervisor_core.host.open_folder import OpenFolder

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 2.0
MAX_NAMED = 8
"""Of a host, in the table."""

MAX_TOKEN = 100_000
SEED, NEW_SEED = "host.seed", "host.new.seed"


def add_parser(subparsers: Subparsers) -> None:
    description = "Set up a fleet: one hub, and hosts that join it with a token."
    parser = add_command(subparsers, "fleet", run, description, "fleet invite web-1")
    action = "init: make this host the hub. invite: print a token for a new host. join: let this host join with a "
    action += "token. list: show the hosts. revoke: cut a host off. doctor: check key, connection, server and rights"
    parser.add_argument("action", choices=["init", "invite", "join", "list", "revoke", "doctor"], help=action)
    parser.add_argument("name", nargs="?", metavar="NAME", help="with invite and revoke: the host")
    source = "with join: the file with the token, or - for standard input (default: it's asked for)"
    parser.add_argument("--token-file", metavar="FILE", help=source)
    parser.add_argument("--url", metavar="URL", help="with init: URL of the server, such as tls://hub:4222")
    parser.add_argument("--json", action="store_true", help="with list: print JSON")


def run(arguments: argparse.Namespace) -> int:
    action, name = arguments.action, arguments.name
    if action == "join" and name:
        raise UsageError(
            "The token isn't given on the command line, where every user of this host can read it.",
            remedy="Run `supervisor fleet join` and paste it, or `supervisor fleet join --token-file FILE`.",
        )
    needs_name = action in ("invite", "revoke")
    if needs_name != bool(name):
        call = f"supervisor fleet {action}{' NAME' if needs_name else ''}"
        raise UsageError(f"This isn't how `fleet {action}` is called.", remedy=f"Run `{call}`.")
    run_action = {"init": _init, "invite": _invite, "join": _join, "list": _list, "revoke": _revoke, "doctor": _doctor}
    return run_action[action](arguments)


def _init(arguments: argparse.Namespace) -> int:
    """Make the hub's key, the server's configuration and its certificates; what exists is kept."""
    raw = read_raw(arguments.config)
    section, url = raw.data.get("fleet"), arguments.url
    if not (section or url):
        raise UsageError("Name the server: `supervisor fleet init --url tls://hub.example.org:4222`.")
    if section and url and (section.get("url") if isinstance(section, dict) else None) != url:
        raise UsageError(
            f"The section fleet in {raw.path} has another url.", remedy="Change it there, and run this without --url."
        )
    planned = None if section else plan_hub(Path(raw.path), url)
    config = check_raw(raw) if planned is None else planned.config
    if config.fleet.server.run:
        find_program()
    if planned is not None:
        planned.write()
    if config.fleet.role != HUB or config.fleet.credentials is None:
        raise UsageError(
            f"The section fleet in {config.path} isn't a hub's.",
            remedy="Remove it and run this again, or set fleet.role: hub, fleet.url and fleet.credentials.",
        )
    prepare_state_dir(config)
    folder, server = config.fleet_folder, config.fleet.server
    url = config.fleet.url.get_secret_value()
    tls = url.startswith("tls://")
    path = config.fleet.credentials
    keys = KeyPair.read(path) if path.exists() else KeyPair.create(path)
    with opened_ledger(config) as ledger:
        write_accounts(folder, keys.public_key, *FleetMembers(ledger).users(datetime.now(UTC)))
    configuration = write_server(folder, server.listen, server.max_gigabytes, tls=tls)
    urls = [urlsplit(part) for part in url.split(",")]
    if tls:
        make_certificates(folder, str(urls[0].hostname))
    print(f"{config.supervisor.id} is the hub of a fleet.")
    if not all(url.scheme in SECURE or is_loopback(url.hostname or "") for url in urls):
        print(
            "Warning: connections aren't encrypted. Who is on the network between the hub and a host can read and "
            "change what they send. Use a URL with tls://, unless another layer encrypts it, such as a VPN.",
            file=sys.stderr,
        )
    if planned is not None:
        print(f"Changed in {config.path}: {', '.join(planned.changes)}.")
    print(f"Its key is in {config.fleet.credentials}. Keep it secret, and back it up.")
    if not config.fleet.server.run:
        print(f"Start the NATS server: `nats-server -c {configuration}`.")
    print(f"Next: {_restart_command(config)}.{' The daemon runs the NATS server.' if config.fleet.server.run else ''}")
    print("Then let a host join: `supervisor fleet invite NAME`.")
    return SUCCESS


def _restart_command(config: SupervisorConfig) -> str:
    is_stopped = observe_daemon(config).state in ("stopped", "stale")
    return f"`supervisor daemon {'start' if is_stopped else 'restart'}`"


def _invite(arguments: argparse.Namespace) -> int:
    with _members_of_hub(arguments) as (config, members, keys):
        if observe_daemon(config).state != "running":
            remedy = f"Run {_restart_command(config)}."
            raise RefusedError("The hub's daemon isn't running, and it lets hosts join.", remedy=remedy)
        ca = config.fleet.ca or own_authority(config.fleet_folder)
        invite = members.invite(checked_name(arguments.name), shell_issuer(), datetime.now(UTC))
        asyncio.run(_apply(config, members, keys))
        certificate = ca.read_text() if ca else ""
        url, hub_key = config.fleet.url.get_secret_value(), keys.public_key
        token = JoinToken(url, certificate, hub_key, arguments.name, invite.invite_id, invite.keys.seed)
    print(f"On {arguments.name}, in the folder of its config.yaml, run this within 60 minutes, and paste the token:\n")
    print("supervisor fleet join\n")
    print("The token. Keep it secret: it works once, for anyone who has it.\n")
    print(token.as_text())
    return SUCCESS


def _join(arguments: argparse.Namespace) -> int:
    """Join with a token. The configuration is checked first, so that a mistake in it doesn't use the token up.

    A token takes a new key. It replaces the host's old one once the hub has answered; until then, a repeated call uses
    it again, because the answer may have been lost.
    """
    token = JoinToken.from_text(_read_token(arguments.token_file))
    try:
        path = Path(find_config(arguments.config)).absolute()
    except ConfigError:  # the file to write
        path = Path("config.yaml").absolute()
    folder = path.parent / "fleet"
    planned = plan_host(path, token)
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    new_seed, ca = folder / NEW_SEED, folder / CA if token.ca else None
    if ca is not None:
        write_atomically(ca, token.ca)
    keys = KeyPair.read(new_seed) if new_seed.exists() else KeyPair.create(new_seed)
    try:
        asyncio.run(request_join(token, keys, ca))
    except JoinRefused:
        new_seed.unlink(missing_ok=True)
        raise
    planned.write()  # first: while the new key lies there, a repeated call joins with it again
    with OpenFolder.at(folder, shared=False) as opened:
        opened.rename(NEW_SEED, opened, SEED)
    print(f"{token.host} has joined the fleet.")
    if planned.changes:
        print(f"Changed in {path}: {', '.join(planned.changes)}.")
    if not planned.config.workers:
        print("It has no workers yet: add them to this file, under `workers`.")
    print(f"Next: {_restart_command(planned.config)}. `supervisor fleet list` on the hub then shows {token.host}.")
    return SUCCESS


def _read_token(source: str | None) -> str:
    """The token from a file, from standard input (`-`), or from the person at the terminal, without showing it."""
    if source == "-":
        return sys.stdin.read(MAX_TOKEN)
    if source is not None:
        try:
            return read_limited(source, MAX_TOKEN).decode("ascii", "replace")
        except OSError as error:
            raise UsageError(f"The token's file {source} can't be read: {error.strerror or error}.") from None
    if not sys.stdin.isatty():
        raise UsageError(
            "There's no terminal to ask for the token.",
            remedy="Name its file, or - for standard input: `supervisor fleet join --token-file FILE`.",
        )
    try:
        return getpass.getpass("Token (it isn't shown): ")
    except EOFError:
        raise UsageError("No token was given.") from None


def _list(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config)
    if config.fleet.role != HUB:
        role = f"{config.supervisor.id} is a host of a fleet" if config.fleet.role else "This host isn't in a fleet"
        remedy = "Run this on the hub." if config.fleet.role else "Make it the hub: `supervisor fleet init`."
        raise UsageError(f"{role}.", remedy=remedy)
    with opened_ledger(config) as ledger:
        hosts = FleetMembers(ledger).hosts()
    try:
        answer = ask(str(config.state_dir), {"do": "fleet"}, ANSWER_SECONDS)
    except (SupervisorError, NotRunningError, UnresponsiveError):
        answer = {}
    presence: dict[str, dict[str, Any]] = answer.get("hosts", {})
    documents = [_host_document(host, presence.get(host.host_id, {})) for host in hosts]
    if arguments.json:
        print_json(documents, indented=True)
        return SUCCESS
    if not documents:
        print("No host has joined. Let one join: `supervisor fleet invite NAME`.")
        return SUCCESS
    rows, now = [], datetime.now(UTC)
    for host in documents:
        seen_at, workers = host["last_seen_at"], host["workers"]
        names = ", ".join(workers[:MAX_NAMED])
        names += f" and {len(workers) - MAX_NAMED} more" if len(workers) > MAX_NAMED else ""
        last_seen = format_ago(seen_at, now) if seen_at else "never"
        rows.append([host["host"], host["state"], last_seen, host["version"], host["trouble"] or names or "-"])
    print_table(("HOST", "STATE", "LAST SEEN", "VERSION", "WORKERS"), rows)
    if not answer:
        print("\nNo answer from the hub's daemon: this is what it knew last.")
    return SUCCESS


def _host_document(host: FleetHost, presence: Mapping[str, Any]) -> dict[str, Any]:
    """A host by its row, and by what the hub's daemon knows of it."""
    seen_at = from_text(presence["seen_at"]) if presence.get("seen_at") else host.last_seen_at
    if host.state is HostState.REVOKED or not presence:
        state = str(host.state)
    elif presence["trouble"]:
        state = "stuck"
    elif seen_at is not None and presence["silent"]:
        state = "unresponsive"
    else:
        state = "connected" if presence["seen_at"] else "joined"
    return {
        "host": host.host_id,
        "state": state,
        "last_seen_at": seen_at,
        "joined_at": host.joined_at,
        "revoked_at": host.revoked_at,
        "version": host.version,
        "workers": host.workers,
        "public_key": host.public_key,
        "trouble": presence.get("trouble", ""),
    }


def _revoke(arguments: argparse.Namespace) -> int:
    with _members_of_hub(arguments) as (config, members, keys):
        revoked = members.revoke(arguments.name, shell_issuer(), datetime.now(UTC))
        asyncio.run(_apply(config, members, keys, removed=arguments.name))
    print(f"Revoked {arguments.name}. It's cut off." if revoked else f"{arguments.name} was revoked before.")
    return SUCCESS


def _doctor(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config)
    findings = asyncio.run(check_fleet(config))
    for finding in findings:
        print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.message}")
        if finding.remedy:
            print(f"      {finding.remedy}")
    return SUCCESS if all(finding.ok for finding in findings) else FAILURE


@contextmanager
def _members_of_hub(arguments: argparse.Namespace) -> Iterator[tuple[SupervisorConfig, FleetMembers, KeyPair]]:
    config = load_config(arguments.config)
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
        except SupervisorError as error:
            hosts, invites = members.users(datetime.now(UTC))
            write_accounts(folder, keys.public_key, hosts, invites)
            if config.fleet.server.run and not error.remedy:
                error.remedy = (
                    f"The hub's daemon runs this server. Run {_restart_command(config)}; "
                    "if it doesn't help, `supervisor status` says why."
                )
            raise
        await apply_members(connection, members, folder, keys.public_key)
        if removed:
            await remove_host(connection, removed)
