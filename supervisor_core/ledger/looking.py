"""A short look into the ledger, for whoever has not got it open: it changes nothing and waits for no writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from supervisor_core.ledger.verify_session import sqlite_reader

T = TypeVar("T")

BUSY_SECONDS = 5.0


def look(path: Path, question: Callable[[Connection], T]) -> T:
    """What a question about the ledger is answered."""
    engine = sqlite_reader(path, BUSY_SECONDS)
    try:
        with engine.connect() as connection:
            return question(connection)
    finally:
        engine.dispose()
