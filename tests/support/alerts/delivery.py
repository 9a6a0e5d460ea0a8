"""A round of the delivery with everything that it began, however busy the machine is."""

from __future__ import annotations

from bot.outbound.delivery import Delivery


async def whole_round(delivery: Delivery) -> float:
    """A round leaves a call behind that takes over a moment; this one waits for it, and raises what it raises."""
    seconds = await delivery.round()
    for task in tuple(delivery._pending):  # noqa: SLF001 (only a test waits for it)
        await task
    return seconds
