"""Copies the rows of many hosts into the hub's ledger: those that wait together, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.service import Blocking
from supervisor_core.fleet import rows
from supervisor_core.fleet.rows import Position
from supervisor_core.storage.replication_progress import Origin
from supervisor_core.storage.store import Ledger

MOST_HOSTS = 100
"""The hosts of one transaction: others that write wait for no more than that."""

SETTLE_SECONDS = 0.05
"""The wait before others are told: many hosts connect or report at the same time."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """A host's answer, and the future of the position after it."""

    origin: Origin
    found: Mapping[str, Any]
    done: asyncio.Future[Position]


class RowCopies:
    """Takes the hosts' answers. While one transaction is written, the next ones gather."""

    def __init__(
        self, ledger: Ledger, blocking: Blocking, announcement: Callable[[], Mapping[str, Any] | None]
    ) -> None:
        """`announcement`: where commands are announced that a host got by itself."""
        self._ledger = ledger
        self._blocking = blocking
        self._announcement = announcement
        self._waiting: list[_Batch] = []
        self._writing: asyncio.Task[None] | None = None

    async def take(self, origin: Origin, found: Mapping[str, Any]) -> Position:
        """Copy the rows of an answer; how far they reach. All of them or none."""
        batch = _Batch(origin, found, asyncio.get_running_loop().create_future())
        self._waiting.append(batch)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        return await batch.done

    async def _write_all(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:MOST_HOSTS], self._waiting[MOST_HOSTS:]
            some = [each for each in some if not each.done.cancelled()]
            if len(some) > 1 and await self._write(some, alone=False):
                continue
            for each in some:  # one of them can't be taken: it keeps no other from being copied
                await self._write([each], alone=True)

    async def _write(self, some: Sequence[_Batch], *, alone: bool) -> bool:
        """Copy these; False if one of them can't be copied, and nothing was."""
        try:
            positions = await self._blocking(self._ledger.write, lambda connection: self._take(connection, some))
        except Exception as error:  # noqa: BLE001 (whoever waits gets it)
            if not (alone or isinstance(error, LedgerUnavailable)):
                return False
            for each in some:
                if not each.done.done():
                    each.done.set_exception(error)
            return True
        crashpoints.reach("fleet.copy:after")
        for each, position in zip(some, positions, strict=True):
            if not each.done.done():
                each.done.set_result(position)
        return True

    def _take(self, connection: Connection, some: Sequence[_Batch]) -> list[Position]:
        hub_id, now, place = self._ledger.supervisor_id, datetime.now(UTC), self._announcement()
        found = rows.take_rows(
            connection, hub_id, [rows.HostRows(each.origin, each.found) for each in some], now, place
        )
        crashpoints.reach("fleet.copy:before")
        return found


class Settled:
    """Calls a function once for all that happens within a moment; on the event loop."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._due: asyncio.TimerHandle | None = None

    def tell(self) -> None:
        """Call it in a moment, if that isn't due already."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._tell)

    def _tell(self) -> None:
        self._due = None
        self._call()
