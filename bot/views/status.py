"""How workers are, a line each, those in trouble first; of a team also what it is for and who left. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.views.overview import line, resting
from bot.views.paging import part_of, sections_of, turning
from bot.views.teams import headed, role_of
from bot.views.text import fit
from bot.views.told import Content, context, section
from supervisor_core.domain.command import Command
from supervisor_core.runtime.team_pictures import TeamPicture

PAGE = 25
"""Workers at once: with the longest reasons still less than a message holds."""

TOGETHER = 2800  # characters of one block
TEXT = 2900


def status(
    command: Command,
    workers: Sequence[Mapping[str, Any]],
    nonce: str,
    page: int = 0,
    team: TeamPicture | None = None,
    *,
    rests: str = "",
) -> Content:
    """One page of them. `rests`: why monitoring is paused, where it is."""
    ordered = sorted(workers, key=lambda worker: bool(worker["fine"]))
    part = part_of(ordered, PAGE, page)
    lines = [f"{line(worker)}{role_of(team, worker['id'])}" for worker in part.items]
    heads = [*([resting(rests)] if rests else []), *(headed(team, workers) if team else [])]
    if part.pages > 1:
        unwell = sum(1 for worker in workers if not worker["fine"])
        last = part.first + len(part.items) - 1
        heads = [
            *heads,
            f"*{len(ordered)} workers, {unwell} in trouble*: {part.first} to {last}, those in trouble first",
        ]
    if not lines:
        lines = ["There are no workers."]
    blocks = [section(text) for text in sections_of([*heads, *lines], TOGETHER)]
    blocks += turning(part, command, nonce)
    if part.pages > 1:
        blocks.append(context(f"Page {part.number + 1} of {part.pages}. `/supervisor status WORKER` shows one alone."))
    return {"text": fit("\n".join([*heads, *lines]), TEXT), "blocks": blocks}
