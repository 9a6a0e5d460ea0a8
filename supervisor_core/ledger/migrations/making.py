"""Making tables, columns and indexes so that an upgrade that was cut off can be done again.

MariaDB commits after each of them, whatever the transaction; the version is written last. So the next upgrade may find
a part of its work done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alembic import op
from sqlalchemy import Column, inspect


def create_table(name: str, *parts: Any, **options: Any) -> None:  # noqa: ANN401 (what Alembic takes)
    """A table that may be there already."""
    if not inspect(op.get_bind()).has_table(name):
        op.create_table(name, *parts, **options)


def add_column(table: str, column: Column[Any]) -> None:
    """A column that may be there already."""
    if column.name not in {each["name"] for each in inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)


def create_index(name: str, table: str, columns: Sequence[str]) -> None:
    """An index that may be there already."""
    if name not in {each["name"] for each in inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, list(columns))
