"""Reports of the real program, and databases for them to look at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import make_url, text

from supervisor_core.demo.repository import make_repository
from supervisor_core.storage import schema
from supervisor_core.storage.engine import shared_engine
from tests.support.homes import Home, a_home, demo_command

ARCHIVE_TABLES = ("containers_t", "segments_t", "publication_instances_t", "pages_t")
OUR_TABLES = ("jobs_t", "workers_t", "audit_log_t")
STAMP = r"\d{8}T\d{6}Z"


@contextmanager
def a_reporting_home(folder: Path) -> Iterator[Home]:
    """A home whose worker has its code in a checkout."""
    (folder / "code").mkdir()
    made = make_repository(folder / "code")
    worker = {"command": demo_command(), "start_grace_seconds": 0.2, "code": {"path": str(made.checkout)}}
    with a_home(folder / "home", {"OrionMX": worker}) as home:
        yield home


def told(home: Home, words: str) -> dict[str, Any]:
    """A command sent and waited for: what it told."""
    answer: dict[str, Any] = home.json("send", words, "--wait")
    return answer


def the_report(answer: dict[str, Any]) -> dict[str, Any]:
    """The report that an answer names."""
    report: dict[str, Any] = json.loads(Path(answer["details"]["report_path"]).read_text())
    return report


def the_report_of_a_pass(home: Home) -> dict[str, Any]:
    """What a pass reports that is asked for diagnostics, the only ones so far."""
    assert home.supervisor("send", "diagnostics").returncode == 0
    home.supervisor("once", "--worker-id", "OrionMX")
    (path,) = (home.nas / "05_LOGS" / "diagnostics").iterdir()
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def passed(answer: dict[str, Any]) -> dict[str, bool]:
    """Which tests of a verification were passed."""
    return {test["name"]: test["passed"] for test in answer["details"]["tests"]}


def make_tables(url: str, names: Sequence[str] = ARCHIVE_TABLES) -> None:
    """Our own by migrations, the archive's by hand, with two rows in each."""
    engine = shared_engine(url)
    schema.ensure(engine)
    with engine.begin() as connection:
        for name in names:
            connection.execute(text(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)"))
            connection.execute(text(f"INSERT INTO {name} VALUES (1), (2)"))
    engine.dispose()


@contextmanager
def with_database(folder: Path, url: str, **database: Any) -> Iterator[Home]:
    """A home whose shared database is this one."""
    # The socket counts, but the configuration asks for a host all the same.
    named = make_url(url).set(host="localhost").render_as_string(hide_password=False) if "psycopg" in url else url
    settings = {"url": named, "critical_tables": [*OUR_TABLES, *ARCHIVE_TABLES], **database}
    with a_home(folder / "home", {"OrionMX": {"command": demo_command()}}, database=settings) as home:
        yield home


def verified(home: Home, task_id: str = "v1", label: str | None = None) -> dict[str, Any]:
    """Verify in a pass; its result file."""
    home.drop_flag(f"supervisor_verify_db_OrionMX_{task_id}.flag", {"label": label})
    home.supervisor("once", "--worker-id", "OrionMX")
    result = home.result("verify_db", task_id)
    assert result is not None
    return result
