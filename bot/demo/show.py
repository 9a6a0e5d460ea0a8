"""What `supervisor demo` says when everything is up: the address, and what to try there."""

from __future__ import annotations

import asyncio
import sys

from bot.demo.home import WORKER
from bot.demo.stage import Stage

WORDS = """\
Up on this machine: a supervisor, its worker {worker}, and a Slack of their own.

  Open  {address}

There you are the operator, in #ops. "Act as", at the top, makes you somebody else.
Five things to try:

  1. {status:36} how the worker is
  2. {pause:36} one message goes from pausing to paused
  3. {resume:36} the same words work in a mention
  4. {refused:36} refused; and the refusal is written down
  5. who did what, in a second terminal:

     {audit}

Ctrl-C ends all of it and leaves nothing behind.
"""


async def show(stage: Stage) -> None:
    """Say it, then wait for ever."""
    words = WORDS.format(
        worker=WORKER,
        address=stage.address,
        status="/supervisor status",
        pause="/supervisor pause hotfix test",
        resume=f"@{stage.slack.server.world.bot.name} resume",
        refused="as the viewer: /supervisor pause",
        audit=stage.home.line("audit"),
    )
    sys.stdout.write(f"\n{words}")
    sys.stdout.flush()
    await asyncio.Event().wait()
