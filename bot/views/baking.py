"""What is said on the card of those who are watched after a change of their code. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.views.text import escape, fit
from bot.views.told import moment
from supervisor_core.domain.baking import Bake, BakeState

REASON = 300  # characters
SHOWN = 10
"""Workers; those who have degraded come first."""


def baking(bakes: Sequence[Bake]) -> list[str]:
    """A line for each; where all are well, one for all of them."""
    if not bakes:
        return []
    if len(bakes) > 1 and len({(bake.state, bake.until) for bake in bakes}) == 1:
        if bakes[0].state is BakeState.WATCHING:
            return [f":eyes: All {len(bakes)} are watched until {moment(bakes[0].until)}."]
        if bakes[0].state is BakeState.WELL:
            return [f":seedling: All {len(bakes)} have been well with it since."]
    ordered = sorted(bakes, key=lambda bake: (bake.state is not BakeState.DEGRADED, bake.worker_id))
    more = [f"… and {len(bakes) - SHOWN} more"] if len(bakes) > SHOWN else []
    return [*(_line(bake) for bake in ordered[:SHOWN]), *more]


def degraded(bakes: Sequence[Bake], worker_id: str) -> Bake | None:
    """Who does not do well with what this worker's command has changed."""
    return next((bake for bake in bakes if bake.asked_for == worker_id and bake.state is BakeState.DEGRADED), None)


def _line(bake: Bake) -> str:
    who, why = escape(bake.worker_id), escape(fit(bake.reason, REASON))
    match bake.state:
        case BakeState.WATCHING:
            return f":eyes: {who} is watched until {moment(bake.until)}."
        case BakeState.WELL:
            return f":seedling: {who} has been well with it since."
        case BakeState.DEGRADED:
            at = f" at {moment(bake.decided_at)}" if bake.decided_at else ""
            return f":warning: *{who} has degraded since*{at}: {why}. Nothing was changed back by itself."
        case BakeState.RECOVERED:
            at = f" since {moment(bake.decided_at)}" if bake.decided_at else ""
            return f":seedling: {who} is well again{at}. Before: {why}."
        case BakeState.OVERTAKEN:
            return f":fast_forward: {who} is not watched any more: {why}."
        case BakeState.ENDED:
            return f":double_vertical_bar: {who} is not watched any more: {why}."
