"""Triggers with which the database itself refuses to change or remove a row of the audit trail.

One exception: rows up to the anchor of their chain may be removed, because a file holds them. Archiving moves the
anchor in a transaction of its own, so the triggers are never dropped. `audit verify` names an anchor that somebody else
moved.
"""

from __future__ import annotations

import logging

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

REFUSAL = "rows of the audit trail are never changed or removed"

_ARCHIVED = (
    "EXISTS (SELECT 1 FROM audit_anchors_t AS anchor "
    "WHERE anchor.supervisor_id = OLD.supervisor_id AND anchor.audit_id >= OLD.audit_id)"
)

_SQLITE = (
    ("audit_log_update", "UPDATE", ""),
    ("audit_log_delete", "DELETE", f"WHEN NOT {_ARCHIVED}"),
    # `INSERT OR REPLACE` removes a row without a word to the trigger above.
    (
        "audit_log_replace",
        "INSERT",
        "WHEN EXISTS (SELECT 1 FROM audit_log_t WHERE supervisor_id = NEW.supervisor_id AND audit_id = NEW.audit_id)",
    ),
)
IN_THE_LEDGER = frozenset(name for name, *_ in _SQLITE)
"""The triggers of a host's own ledger."""

_SIGNAL = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{REFUSAL}'"
_MYSQL = (
    ("audit_log_update", "UPDATE", _SIGNAL),
    ("audit_log_delete", "DELETE", f"IF NOT {_ARCHIVED} THEN {_SIGNAL}; END IF"),
)
_POSTGRESQL = (
    ("audit_log_rows", "UPDATE OR DELETE", "ROW"),
    ("audit_log_all", "TRUNCATE", "STATEMENT"),
)
_FUNCTION = f"""
CREATE OR REPLACE FUNCTION audit_log_guard() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF {_ARCHIVED} THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '{REFUSAL}';
END
$guard$
"""

NOT_ALLOWED = (1142, 1227, 1419)
"""Errors of MariaDB and MySQL for an account that can't create triggers."""

log = logging.getLogger(__name__)


def install(connection: Connection) -> None:
    """Make the triggers; those that are there already are made again."""
    dialect = connection.dialect.name
    if dialect == "sqlite":
        _install_sqlite(connection)
    elif dialect == "postgresql":
        _install_postgresql(connection)
    else:
        _install_mysql(connection)


def drop(connection: Connection) -> None:
    """Drop the triggers. Only tests do this."""
    on = " ON audit_log_t" if connection.dialect.name == "postgresql" else ""
    for name, *_ in {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}.get(connection.dialect.name, _MYSQL):
        connection.execute(text(f"DROP TRIGGER IF EXISTS {name}{on}"))


def _install_sqlite(connection: Connection) -> None:
    drop(connection)
    for name, event, condition in _SQLITE:
        body = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        connection.execute(text(f"CREATE TRIGGER {name} BEFORE {event} ON audit_log_t {condition} {body}"))


def _install_postgresql(connection: Connection) -> None:
    drop(connection)
    connection.execute(text(_FUNCTION))
    for name, event, each in _POSTGRESQL:
        statement = f"CREATE TRIGGER {name} BEFORE {event} ON audit_log_t FOR EACH {each}"
        connection.execute(text(f"{statement} EXECUTE FUNCTION audit_log_guard()"))


def _install_mysql(connection: Connection) -> None:
    try:
        drop(connection)
        for name, event, body in _MYSQL:
            connection.execute(text(f"CREATE TRIGGER {name} BEFORE {event} ON audit_log_t FOR EACH ROW {body}"))
    except DBAPIError as error:
        if not error.orig or error.orig.args[:1][0] not in NOT_ALLOWED:
            raise
        log.warning(
            "This account can't create triggers in the database, so changes to its audit_log_t aren't blocked. "
            "`supervisor audit verify` finds them. (%s)",
            error.orig,
        )
