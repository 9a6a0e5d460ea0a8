"""Verify-db: whether the database answers, is the right one, has its tables, and speaks UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.context import Host

if TYPE_CHECKING:
    from supervisor_core.config import SupervisorConfig
    from supervisor_core.ledger.verify import Verification

KIND = "db_verification"
REMEDIES = {
    "connection": "Is the server up, and database.url right?",
    "table": "If it is missing, is database.critical_tables right? If it is slow, who holds a lock on it?",
    "time zone": "Something between us and the server takes our settings away: look at the proxy or the URL.",
}


def verify_database(host: Host, job: Job) -> Outcome:
    """Ask the database that is configured, else the ledger, and keep the answers as a report."""
    # Only here, because whoever looks at workers alone must not pay for the import.
    from supervisor_core.handlers.reports import keep_report, masking_of
    from supervisor_core.ledger.verify import verify

    database, masking = host.config.database, masking_of(host.config)
    found = verify(database_url(host.config), database.critical_tables, database.query_timeout_seconds)
    content = {
        **found.facts(),
        "database": database_name(host.config),
        "passed": found.passed,
        "tests": [each.as_json() for each in found.asked],
    }
    details: dict[str, Any] = masking.ours(content)
    details |= keep_report(host, job, KIND, details, masking)
    if found.passed:
        return Outcome.done(message=_good_news(found), **details)
    error = masking.text(f"{_bad_news(found)} {_remedy(found)}".rstrip())
    return Outcome.failed(error, message=f"{len(found.failures)} of {len(found.asked)} tests failed", **details)


def database_url(config: SupervisorConfig) -> str:
    """Where the database is: the shared one, and without one the ledger."""
    from supervisor_core.ledger.store import FILE_NAME

    return config.database.url.get_secret_value() or f"sqlite:///{config.state_dir / FILE_NAME}"


def database_name(config: SupervisorConfig) -> str:
    """Which database that is, as it may be shown."""
    return str(config.database.url) or "the ledger"


def _good_news(found: Verification) -> str:
    named = found.session.name if found.session else "the database"
    seconds = sum(each.seconds for each in found.asked)
    return f"{named} is well: {len(found.asked)} of {len(found.asked)} tests passed in {seconds:.2f} s"


def _bad_news(found: Verification) -> str:
    """What failed, each once: what was not asked because there was no connection goes without saying."""
    if not found.connected:
        return f"The database can't be reached: {found.failures[0].message}."
    return (
        f"The database is not as it should be: {'; '.join(f'{each.name}: {each.message}' for each in found.failures)}."
    )


def _remedy(found: Verification) -> str:
    name = found.failures[0].name
    return next((remedy for start, remedy in REMEDIES.items() if name.startswith(start)), "")
