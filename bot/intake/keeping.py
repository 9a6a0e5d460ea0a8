"""Keeps envelopes in the ledger: all that arrive while one write is under way are the next write, together.

With a write for each, the last of a burst waits for the statements of all: 80 ms for 200, where this takes 15
(`tests/benchmarks/bench_ack.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from supervisor_core.domain.errors import SupervisorError
from supervisor_core.ledger import envelopes
from supervisor_core.ledger.envelopes import Received
from supervisor_core.ledger.store import Ledger

MOST_TOGETHER = 200
"""Bounds how long the write lock is held; so many take some three milliseconds."""

Waiting = tuple[Received, asyncio.Future[bool]]


class Keeping:
    """`keep` comes back once the envelope is on disk."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(self, received: Received) -> bool:
        """Whether it is the first with its key; what kept it from being written, where something did."""
        first: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((received, first))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="keeping envelopes")
        return await first

    async def quiet(self, seconds: float) -> None:
        """Come back when nothing waits to be written, or after so long."""
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing], timeout=seconds)

    async def _write_all(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            await self._write(together)

    async def _write(self, together: Sequence[Waiting]) -> None:
        arrived = tuple(received for received, _ in together)
        try:
            written = self._ledger.submit(lambda connection: envelopes.keep(connection, arrived))
            firsts = await asyncio.wrap_future(written)
        except Exception as error:  # noqa: BLE001 (whoever waits is told)
            if len(together) > 1 and not isinstance(error, SupervisorError):
                for each in together:  # one that can't be kept takes no other with it
                    await self._write([each])
                return
            for _, first in together:
                if not first.done():
                    first.set_exception(error)
        else:
            for (_, first), answer in zip(together, firsts, strict=True):
                if not first.done():
                    first.set_result(answer)
