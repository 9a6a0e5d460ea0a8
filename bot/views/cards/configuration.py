"""The card of a configuration, the notice of unknown ids, and the notice of an unreachable channel. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.views.blocks import Content, context, section, text_message
from bot.views.text import escape, first_lines, fit
from supervisor_core.code.change_plan import count
from supervisor_core.commands.labels import Role
from supervisor_core.config.changes import ChangeResult

SHOWN, NAMES = 8, 8
"""Lines of changes, and workers by name; the others are counted."""

LINE, ERROR, PATH = 150, 1500, 200  # characters


def config_card(said: Mapping[str, Any]) -> Content:
    """One message for each configuration."""
    return _refused(said) if "error" in said else _applied(said)


def _refused(said: Mapping[str, Any]) -> Content:
    headline = f"*Configuration refused* on {_data(said['host'])} · version {said['version']} stays in force"
    error = fit(escape(str(said["error"]).replace("```", "'''")), ERROR)
    body = f"```{error}```\nCorrect the file. It's read again as soon as it changes."
    return _card(f":warning: {headline}", body, said)


def _applied(said: Mapping[str, Any]) -> Content:
    end, affected = ChangeResult(said["end"]), {str(name): str(role) for name, role in said["affected"].items()}
    failed = _with(affected, Role.FAILED)
    moved = [
        f"{_listed(names)} {verb}"
        for role, verb in ((Role.RESTARTED, "restarted"), (Role.STARTED, "started"), (Role.STOPPED, "stopped"))
        if (names := _with(affected, role))
    ]
    down = f"{_listed(failed)} {'does' if len(failed) == 1 else 'do'}n't run with it"
    facts = "; ".join(moved) or "no worker restarted"
    headline = {
        ChangeResult.APPLIED: f":white_check_mark: *Configuration applied* · {facts}",
        ChangeResult.FAILED: f":red_circle: *Configuration applied* · {down}",
        ChangeResult.HALTED: f":red_circle: *Configuration halted* · {down}",
        ChangeResult.SUPERSEDED: f":fast_forward: *Configuration superseded* by a newer one · {facts}",
        ChangeResult.INTERRUPTED: f":warning: *Configuration interrupted* by the end of the supervisor · {facts}",
    }[end]
    lines = first_lines([f"• {_data(each)}" for each in said["changes"]], SHOWN, "• and {} more")
    held = sorted(set(said["moves"]) - affected.keys())
    if end is ChangeResult.HALTED and held:
        lines.append(f"{_listed(held)} {'keeps' if len(held) == 1 else 'keep'} running with the older settings.")
    if failed:
        lines.append("Correct the configuration. It's applied as soon as the file changes.")
    return _card(headline, "\n".join(lines), said)


def _card(headline: str, body: str, said: Mapping[str, Any]) -> Content:
    facts = f"{_data(said['owner'])} · {fit(escape(str(said['path'])), PATH)} · version {said['version']}"
    blocks = [section(headline), *([section(body)] if body else []), context(facts)]
    return {"text": headline, "blocks": blocks}


def _with(affected: Mapping[str, str], role: Role) -> list[str]:
    return sorted(name for name, its in affected.items() if its == role)


def _listed(names: Sequence[str]) -> str:
    if len(names) > NAMES:
        return count(len(names), "worker")
    *others, last = map(_data, names) if names else [""]
    return f"{', '.join(others)} and {last}" if others else last


def _data(text: object) -> str:
    return fit(escape(str(text)), LINE)


IDS_SHOWN = 8
"""Troubles with a line of their own; the others are counted."""

ID_LINE = 300  # characters of one


def unknown_ids(host: str, troubles: Sequence[str]) -> Content:
    """One notice for all of them. Everybody in the channel reads it: nobody is mentioned, ids stand as they are."""
    lines = first_lines([f"• {fit(escape(trouble), ID_LINE)}" for trouble in troubles], IDS_SHOWN, "• and {} more")
    what = f":warning: *The configuration of {escape(host)} and this Slack do not fit together:*"
    return text_message(
        "\n".join([what, *lines, "Whoever is named wrongly has no rights. `supervisor doctor` looks again."])
    )


_BELONGS = {
    "alert_channel": "the alerts",
    "approval_channel": "the approvals",
    "fallback_channel": "what no other channel takes",
}


def unreachable_channel(
    host: str, channel: str, refused: str, why: str, keys: Sequence[str], fallback: str, bot: str
) -> Content:
    """The notice for admins: the channel, the reason, the place of its messages meanwhile, and the remedy."""
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
    return text_message("\n".join(lines))
