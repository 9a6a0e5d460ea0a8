"""`supervisor fleet` with real programs: a hub, a host that joins with a token, and its end."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from supervisor_core.cli import main
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import JoinToken
from supervisor_core.fleet.setup import PlannedConfig
from supervisor_core.fleet.transport.server import NatsServer
from tests.support.daemon.fleets import PATIENCE, free_port
from tests.support.homes import SUPERVISOR, Home, a_home
from tests.support.waiting import wait_until


@contextmanager
def a_fleet_home(folder: Path, name: str) -> Iterator[Home]:
    with a_home(folder / name, {}, supervisor={"id": name, "state_dir": "var"}, slack={"enabled": False}) as home:
        yield home


def said(home: Home, *words: str, code: int = 0) -> str:
    done = home.supervisor("fleet", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_host_joins_with_one_command_and_is_revoked(tmp_path: Path) -> None:
    with a_fleet_home(tmp_path, "hub") as hub, a_fleet_home(tmp_path, "web") as web, ExitStack() as ending:
        assert "The daemon runs the NATS server" in said(hub, "init", "--url", f"tls://127.0.0.1:{free_port()}")
        assert "The daemon runs the NATS server" in said(hub, "init"), "it may be repeated"
        assert "The hub's daemon isn't running" in said(hub, "invite", "web", code=1)
        config = load_supervisor_config(hub.config, environ={})
        ending.callback(NatsServer(config.fleet_folder).stop)
        hub.start_daemon()
        wait_until(lambda: hub.supervisor("fleet", "invite", "web").returncode == 0, PATIENCE, "the hub is ready")
        (web.folder / "token").write_text(said(hub, "invite", "web").split()[-1])
        assert "web has joined the fleet" in said(web, "join", "--token-file", "token")
        stolen = (web.folder / "fleet" / "host.seed").read_bytes()
        assert config.fleet.credentials is not None
        hub_key = KeyPair.read(config.fleet.credentials).public_key
        joined = load_supervisor_config(web.config, environ={})
        assert (joined.supervisor.id, joined.fleet.role, joined.fleet.hub_key) == ("web", "host", hub_key)
        assert stat.S_IMODE((web.folder / "fleet" / "host.seed").stat().st_mode) == 0o600
        assert "FAIL" not in said(web, "doctor")
        assert "FAIL" not in said(hub, "doctor")
        assert "web" in said(hub, "list")
        authority = web.folder / "fleet" / "ca.pem"
        authority.rename(web.folder / "ca.pem")
        told = said(web, "doctor", code=1)
        assert f"{authority} is missing" in told
        assert "supervisor fleet invite web" in told
        (web.folder / "ca.pem").rename(authority)
        assert "cut off" in said(hub, "revoke", "web")
        assert '"state": "revoked"' in said(hub, "list", "--json")
        (web.folder / "token").write_text(said(hub, "invite", "web").split()[-1])
        assert "web has joined the fleet" in said(web, "join", "--token-file", "token")
        assert (web.folder / "fleet" / "host.seed").read_bytes() != stolen, "a revoked key never comes back"
        assert "isn't the hub" in said(web, "invite", "db", code=2)
        hub.kill_newest_daemon()
        assert "No answer from the hub's daemon" in said(hub, "list")


def test_the_certificate_follows_the_url_and_the_authority_stays(tmp_path: Path) -> None:
    with a_fleet_home(tmp_path, "hub") as hub:
        port = free_port()
        said(hub, "init", "--url", f"tls://127.0.0.1:{port}")
        folder = load_supervisor_config(hub.config, environ={}).fleet_folder
        authority, first = (folder / "ca.pem").read_bytes(), (folder / "server.pem").read_bytes()
        said(hub, "init")
        assert (folder / "server.pem").read_bytes() == first
        hub.config.write_text(hub.config.read_text().replace(f"tls://127.0.0.1:{port}", f"tls://localhost:{port}"))
        said(hub, "init")
        assert (folder / "server.pem").read_bytes() != first
        assert (folder / "ca.pem").read_bytes() == authority
        checking = ["openssl", "verify", "-CAfile", "ca.pem", "-verify_hostname", "localhost", "server.pem"]
        assert subprocess.run(checking, cwd=folder, capture_output=True).returncode == 0


def test_a_fleet_without_tls_beyond_this_machine_says_what_that_means(tmp_path: Path) -> None:
    for number, (url, warned) in enumerate(
        [("nats://hub.example.org:4222", True), ("nats://127.0.0.1:4222", False), ("tls://127.0.0.1:4222", False)]
    ):
        with a_fleet_home(tmp_path, f"hub{number}") as hub:
            done = hub.supervisor("fleet", "init", "--url", url)
            assert done.returncode == 0, done.stderr
            assert ("encrypted" in done.stderr) is warned, url


def test_a_token_comes_from_a_file_standard_input_or_the_terminal_and_never_from_the_command_line(
    tmp_path: Path,
) -> None:
    """Every user of the host can read the command line of a process."""
    with a_fleet_home(tmp_path, "web") as web:
        told = said(web, "join", "fleet1-secret", code=2)
        assert "--token-file" in told
        assert "fleet1-secret" not in told
        assert "no-file can't be read" in said(web, "join", "--token-file", "no-file", code=2)
        joining = [*SUPERVISOR, "fleet", "join"]
        for words, expected in ((["--token-file", "-"], "isn't a token"), ([], "--token-file")):
            done = subprocess.run(
                [*joining, *words],
                input=b"junk\n",
                capture_output=True,
                timeout=PATIENCE,
                cwd=web.folder,
                env=web.environ,
            )
            assert (done.returncode, expected in done.stderr.decode()) == (2, True)
        keyboard, terminal = os.openpty()
        with subprocess.Popen(
            joining,
            stdin=terminal,
            stdout=terminal,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd=web.folder,
            env=web.environ,
        ) as asking:
            assert asking.stderr is not None
            assert asking.stderr.read(1)  # it asks
            os.write(keyboard, b"typed-secret\n")
            assert b"isn't a token" in asking.communicate(timeout=PATIENCE)[1]
        os.write(terminal, b"end")
        assert b"typed-secret" not in os.read(keyboard, 10_000)
        os.close(keyboard)
        os.close(terminal)


def test_a_join_whose_configuration_cannot_be_written_is_repeated_with_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []

    async def answer(_token: object, pair: KeyPair, _ca: object) -> None:
        keys.append(pair.public_key)

    monkeypatch.setattr("supervisor_core.cli.fleet.request_join", answer)
    with a_fleet_home(tmp_path, "web") as web:
        token = JoinToken("tls://hub:4222", "", KeyPair.new().public_key, "web", "i1", KeyPair.new().seed).as_text()
        (web.folder / "token").write_text(token)
        joining = ["fleet", "join", "--config", str(web.config), "--token-file", str(web.folder / "token")]
        with monkeypatch.context() as full:
            full.setattr(PlannedConfig, "write", disk_full)
            assert main(joining) == 1
        assert main(joining) == 0
        assert keys[0] == keys[1] == KeyPair.read(web.folder / "fleet" / "host.seed").public_key


def disk_full(_planned: PlannedConfig) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
