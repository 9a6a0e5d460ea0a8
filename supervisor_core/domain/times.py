"""Aware UTC in words and back: one written form for files, tables and the hash chain."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time of day, for whoever is given no other clock."""
    return datetime.now(UTC)


def require_aware(moment: datetime) -> datetime:
    """The same moment in UTC; a naive one is a mistake of the programmer and is refused."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment!r} has no time zone; every time here is aware UTC")
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in UTC it would lie before the year 1 or after 9999
        raise ValueError(f"{moment!r} is no time that UTC knows") from None


def to_text(moment: datetime) -> str:
    """`2026-02-05T14:30:15.234567Z`: fixed width, so that texts sort as the moments do."""
    return f"{require_aware(moment).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def from_text(text: str) -> datetime:
    """A moment out of ISO 8601 text; `ValueError` for anything else, and for one without a zone."""
    return require_aware(datetime.fromisoformat(text))


def compact(moment: datetime) -> str:
    """`20260205T143015Z`, for file names."""
    return require_aware(moment).strftime("%Y%m%dT%H%M%SZ")
