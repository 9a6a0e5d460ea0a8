"""Building blocks of the table definitions. Every table and column has a description.

The tables reference is generated from the descriptions. They aren't stored in the database.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, MetaData, String, Table
from sqlalchemy.schema import SchemaItem

# Lengths in characters.
COMMAND_ID = 128
WORKER_ID = 64
SUPERVISOR_ID = 64
LABEL = 100
AUDIT_LABEL = 160
PERSON_ID, PERSON_NAME = 128, 255
TARGET_TYPE, TARGET_ID = 16, 64
CONDITION = 32
STATE = 16
STATUS_SUMMARY = 255
REASON = 255
TEAM_NAME = 255

WORKER_ROW = 80
"""A worker's id, or `supervisor_` and a worker's id: the supervisor's own row never overwrites the worker's."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def table(name: str, description: str, *parts: SchemaItem) -> Table:
    return Table(name, metadata, *parts, info={"description": description})


def key(name: str, kind: Any, description: str, *, counted: bool = False) -> Column[Any]:  # noqa: ANN401 (a type or its class)
    """A column of the primary key; the database numbers a counted one."""
    return Column(name, kind, doc=description, primary_key=True, autoincrement=counted)


def required(name: str, kind: Any, description: str) -> Column[Any]:  # noqa: ANN401
    return Column(name, kind, doc=description, nullable=False)


def optional(name: str, kind: Any, description: str) -> Column[Any]:  # noqa: ANN401
    """A column that may be NULL."""
    return Column(name, kind, doc=description)


def supervisor_id() -> Column[Any]:
    """The column that says which host a row belongs to."""
    return required("supervisor_id", String(SUPERVISOR_ID), "The supervisor (host) that the row belongs to.")
