"""The check of the shared database: reachable, and in UTC. What is in it is the business of `verify-db`."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

from supervisor_core.adapters.report_masking import Masking
from supervisor_core.config import SupervisorConfig
from supervisor_core.ledger.forward_database import SharedDatabase
from supervisor_core.ledger.schema import ForeignTables
from supervisor_core.ledger.verify import verify
from supervisor_core.runtime.doctor.checks import Check

NAME = "database"
LOOK_SECONDS = 15.0
QUERY_SECONDS = 5.0
REMEDY = "Start the server, or correct database.url; `supervisor send verify-db --wait` tells more."


def look(config: SupervisorConfig) -> Check:
    """Without one there is nothing that could be wrong: the ledger has a check of its own."""
    url = config.database.url.get_secret_value()
    if not url:
        return Check(NAME, True, "none is configured, so the ledger is the database")
    shown = str(config.database.url)
    if _not_there_yet(url):
        return Check(NAME, True, f"{shown} is not there yet")
    timeout = min(config.database.query_timeout_seconds, QUERY_SECONDS)
    found = verify(url, (), timeout, LOOK_SECONDS)
    if not found.passed:
        said = Masking(config.secrets()).text(found.failures[0].message)
        return Check(NAME, False, f"{shown}: {found.failures[0].name}: {said}", REMEDY)
    database = SharedDatabase(url, timeout)
    try:
        version = database.check_ours()
    except ForeignTables as error:
        return Check(NAME, False, f"{shown}: {error.message}", error.remedy)
    finally:
        database.close()
    if version is None:
        remedy = "Run: supervisor db upgrade. The first round of forwarding does so as well."
        return Check(NAME, True, f"{shown} answers, and has no tables of the supervisor yet", remedy)
    return Check(NAME, True, f"{shown} answers: {found.asked[1].message}; its tables are at version {version}")


def _not_there_yet(url: str) -> bool:
    """A file is made by whoever first writes to it; the folder must be there."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return False
    path = Path((parsed.database or "").removeprefix("file:"))
    return not path.exists() and path.parent.is_dir()
