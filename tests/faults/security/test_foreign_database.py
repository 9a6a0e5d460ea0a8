"""`database.url` names another program's database: nothing there is touched, and everybody says so with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, inspect, text

from supervisor_core.daemon.replication.rounds import ReplicationRounds
from supervisor_core.storage import schema
from supervisor_core.storage.schema import ForeignTables
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import metadata
from tests.support.homes import Home, a_home
from tests.support.storage.forwarded_rows import do_job, forward, forwarding, opened

ARCHIVE = (
    "CREATE TABLE workers_t (worker_id VARCHAR(80) PRIMARY KEY, shift VARCHAR(20))",
    "CREATE TABLE containers_t (container_id INTEGER PRIMARY KEY)",
    "INSERT INTO workers_t VALUES ('anna', 'night')",
)
"""An archive that has known workers for years, of another kind."""


@pytest.fixture
def archive(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.begin() as connection:
        for words in ARCHIVE:
            connection.execute(text(words))
    yield engine
    engine.dispose()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    folder = tmp_path / "home"
    folder.mkdir()
    with opened(folder) as made:
        do_job(made, "t1")
        yield made


def picture(engine: Engine) -> dict[str, Any]:
    """Every table with its columns, and the rows of the archive."""
    look = inspect(engine)
    columns = {name: sorted(each["name"] for each in look.get_columns(name)) for name in look.get_table_names()}
    with engine.connect() as connection:
        return {"columns": columns, "rows": connection.execute(text("SELECT * FROM workers_t")).all()}


def journal_mode(engine: Engine) -> str:
    if engine.dialect.name != "sqlite":
        return ""
    with engine.connect() as connection:
        return str(connection.execute(text("PRAGMA journal_mode")).scalar())


def a_shared_home(folder: Path, url: str) -> Any:
    return a_home(folder, database={"url": url})


def doctor_says(home: Home) -> dict[str, Any]:
    return next(each for each in home.json("doctor")["checks"] if each["name"] == "database")


def test_an_archive_with_tables_of_our_names_is_left_alone(database_url: str, archive: Engine, ledger: Ledger) -> None:
    before, mode = picture(archive), journal_mode(archive)
    with forwarding(ledger, database_url) as made:
        rounds = ReplicationRounds(made)
        said = {rounds.once().problem for _ in range(3)}
        (problem,) = said
        assert "isn't the supervisor's: its table workers_t lacks last_heartbeat_at" in problem
        assert "Nothing was changed. Create a database of its own" in problem
        with pytest.raises(ForeignTables):
            made.connect()
    assert (picture(archive), journal_mode(archive)) == (before, mode)


def test_tables_that_an_older_program_let_pass_are_noticed_at_our_version(
    database_url: str, archive: Engine, ledger: Ledger
) -> None:
    with archive.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text(f"INSERT INTO alembic_version VALUES ('{schema.HEAD}')"))
    with pytest.raises(ForeignTables, match="workers_t lacks last_heartbeat_at"):
        forward(ledger, database_url)


def test_a_database_that_another_program_migrates_is_named(database_url: str, archive: Engine, ledger: Ledger) -> None:
    with archive.begin() as connection:
        connection.execute(text("DROP TABLE workers_t"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('ae1027a6acf')"))
    with pytest.raises(ForeignTables, match="another program migrates it"):
        forward(ledger, database_url)
    assert "jobs_t" not in inspect(archive).get_table_names()


def test_an_archive_without_such_tables_takes_ours_beside_its_own(
    database_url: str, archive: Engine, ledger: Ledger
) -> None:
    with archive.begin() as connection:
        connection.execute(text("DROP TABLE workers_t"))
    assert forward(ledger, database_url) > 0
    assert {*metadata.tables, "containers_t"} <= set(inspect(archive).get_table_names())


def test_passes_doctor_and_upgrade_say_so_and_touch_nothing(tmp_path: Path, database_url: str, archive: Engine) -> None:
    before = picture(archive)
    with a_shared_home(tmp_path / "home", database_url) as home:
        assert home.supervisor("once", "--heal").returncode == 0, "forwarding decides nothing"
        done = home.supervisor("once")
        assert done.stderr.count("isn't the supervisor's") == 1
        assert "no such column" not in done.stderr
        check = doctor_says(home)
        assert not check["ok"]
        assert "its table workers_t lacks last_heartbeat_at" in check["message"]
        assert "Create a database of its own" in check["remedy"]
        done = home.supervisor("db", "upgrade")
        assert done.returncode == 1
        assert "isn't the supervisor's" in done.stderr
        assert "Ledger " in done.stdout
    assert picture(archive) == before


def test_db_upgrade_upgrades_the_ledger_and_the_shared_database(tmp_path: Path, database_url: str) -> None:
    with a_shared_home(tmp_path / "home", database_url) as home:
        done = home.supervisor("db", "upgrade")
        assert done.returncode == 0, done.stderr
        ledger, shared = done.stdout.splitlines()
        assert ledger.startswith("Ledger ")
        assert ledger.endswith(f"created (version {schema.HEAD})")
        assert shared.startswith("Shared database ")
        assert shared.endswith(f"created (version {schema.HEAD})")
        engine = create_engine(database_url, poolclass=NullPool)
        assert set(metadata.tables) <= set(inspect(engine).get_table_names())
        again = home.supervisor("db", "upgrade").stdout
        assert again.count(f"up to date (version {schema.HEAD})") == 2
        verified = home.supervisor("send", "verify-db")
        assert verified.returncode == 0, verified.stderr
        assert home.supervisor("once", "--heal").returncode == 0
        assert doctor_says(home)["ok"]


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mysql+pymysql"])
def test_db_upgrade_fails_in_one_line_where_the_server_is_down(tmp_path: Path, scheme: str) -> None:
    with a_shared_home(tmp_path / "home", f"{scheme}://anna:secret@127.0.0.1:1/x") as home:
        done = home.supervisor("db", "upgrade")
        assert done.returncode == 1
        assert done.stdout.startswith("Ledger "), "that was upgraded all the same"
        assert done.stderr.count("\n") == 1, done.stderr
        assert "can't be used" in done.stderr
        assert "secret" not in done.stderr


def test_db_upgrade_without_a_shared_database_says_that_there_is_none(tmp_path: Path) -> None:
    with a_home(tmp_path) as home:
        done = home.supervisor("db", "upgrade")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[1] == "Shared database: no shared database is configured (database.url)"
