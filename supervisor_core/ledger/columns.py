"""Column types that mean the same on SQLite, MariaDB and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import TIMESTAMP, BigInteger, Dialect, Integer, String, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from supervisor_core.domain.times import from_text, require_aware, to_text

RowId = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up by itself on INTEGER alone


class LongText(TypeDecorator[str]):
    """Text of any length; a plain TEXT of MariaDB ends at 64 KB."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name in ("mysql", "mariadb"):
            from sqlalchemy.dialects.mysql import LONGTEXT  # slow to import, and not needed on SQLite

            return dialect.type_descriptor(LONGTEXT())
        return dialect.type_descriptor(Text())


class UtcDateTime(TypeDecorator[datetime]):
    """An aware moment in UTC, to the microsecond. What is naive does not get in.

    SQLite keeps text of fixed width, which sorts as the moments do; MariaDB a DATETIME(6) that is UTC because the
    session's zone is pinned; PostgreSQL a timestamp that knows its zone.
    """

    impl = String(27)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name in ("mysql", "mariadb"):
            from sqlalchemy.dialects.mysql import DATETIME

            return dialect.type_descriptor(DATETIME(fsp=6))
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String(27))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ANN401
        if value is None:
            return None
        moment = require_aware(value)
        if dialect.name in ("mysql", "mariadb"):
            return moment.replace(tzinfo=None)
        return moment if dialect.name == "postgresql" else to_text(moment)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ANN401, ARG002
        if value is None:
            return None
        if isinstance(value, str):
            return from_text(value)
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class StoredMoment(UtcDateTime):
    """A moment of the audit trail: where the database holds something else in its place, that is what's read.

    On SQLite only the one written form counts as a moment. Another spelling of the same moment is an altered cell.
    """

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        if not isinstance(value, str):
            return super().process_result_value(value, dialect) if isinstance(value, datetime) else value
        try:
            moment = from_text(value)
        except ValueError:
            return value
        return moment if dialect.name != "sqlite" or to_text(moment) == value else value
