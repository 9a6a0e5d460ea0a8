"""What the admins are told of a channel that takes nothing from us. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.views.text import escape
from bot.views.told import Content, words

_BELONGS = {
    "alert_channel": "the alerts",
    "approval_channel": "the approvals",
    "fallback_channel": "what no other channel takes",
}


def shut_out(host: str, channel: str, refused: str, why: str, keys: Sequence[str], fallback: str, bot: str) -> Content:
    """Which channel, why, what becomes of its messages meanwhile, and what to do."""
    what = " and ".join(_BELONGS[key] for key in keys)
    settings = " and ".join(f"`slack.{key}`" for key in keys)
    meanwhile = (
        f"Meanwhile they are posted in <#{fallback}>."
        if fallback and fallback != channel
        else "Meanwhile they wait where nobody reads them: `supervisor alerts` on the host has them."
    )
    invite = f"`/invite @{bot}` in it"
    mend = {
        "is_archived": "unarchive it",
        "not_in_channel": invite,
        "channel_not_found": f"look whether it is there, and {invite}",
    }.get(refused, f"let @{bot} post there")
    lines = [
        f":no_entry: *I can't write in <#{channel}>* (`{channel}`): {why}.",
        f"What belongs there: {what}, of {escape(host)}. {meanwhile}",
        f"What to do: {mend}; or name another channel in {settings}, then `supervisor restart` on the host.",
        "After that what waits is posted by itself.",
    ]
    return words("\n".join(lines))
