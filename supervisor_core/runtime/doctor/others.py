"""The check of the other supervisors in the shared database: whether one that should be there is silent."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from supervisor_core.config import SupervisorConfig
from supervisor_core.ledger import supervisors
from supervisor_core.ledger.verify_session import limit, open_session
from supervisor_core.runtime.doctor.checks import Check
from supervisor_core.runtime.doctor.database import QUERY_SECONDS

NAME = "other_supervisors"


def look(config: SupervisorConfig) -> Check:
    """A warning fails nothing: this host is in order, and every other one would fail with the same words."""
    url = config.database.url.get_secret_value()
    if not url:
        return Check(NAME, True, "no shared database tells of any")
    engine = open_session(url, min(config.database.query_timeout_seconds, QUERY_SECONDS))
    try:
        with engine.connect() as connection:
            limit(connection, QUERY_SECONDS)
            known = supervisors.everyone(connection)
            silent = supervisors.unresponsive(connection, datetime.now(UTC), config.supervisor.id)
    except SQLAlchemyError:  # away, or without these tables: `database` says so
        return Check(NAME, True, "not looked at: the shared database does not tell of them")
    finally:
        engine.dispose()
    if silent:
        remedy = "Look at those hosts: supervisor status, or is the host itself gone? Their workers may go on."
        return Check(NAME, True, " ".join(each.in_words() for each in silent), remedy)
    others = sum(row.supervisor_id != config.supervisor.id for row in known)
    return Check(NAME, True, f"{others} known, and none that should be there is silent" if others else "there are none")
