"""The card of a configuration, the notice of unknown ids, and the notice of an unreachable channel. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.views.blocks import Color, Content, Json, card, code_block, context, section
from bot.views.text import first_lines, in_code, in_span, inert
from supervisor_core.code.change_plan import count

SHOWN, NAMES = 8, 8
"""Lines of changes, and workers by name; the others are counted."""

LINE, ERROR, PATH = 150, 1500, 200  # characters


def config_card(said: Mapping[str, Any]) -> Content:
    """One message for each configuration."""
    return _refused(said) if "error" in said else _applied(said)


def _refused(said: Mapping[str, Any]) -> Content:
    headline = f":warning: *Configuration refused* on {_data(said['host'])}, version {said['version']} stays in force"
    body = [
        code_block(in_code(str(said["error"]), ERROR)),
        section("Fix the error above. The file is read again as soon as it changes."),
    ]
    return card(headline, Color.WARNING, [*body, _small_print(said)])


def _applied(said: Mapping[str, Any]) -> Content:
    results = {str(name): str(result) for name, result in said.get("workers", {}).items()}
    done = [
        f"{_listed(names)} {role}" for role in ("restarted", "started", "stopped") if (names := _with(results, role))
    ]
    failed, held = _with(results, "failed", "kept"), _with(results, "held", "kept")
    lines = first_lines([f"• {_data(change)}" for change in said["changes"]], SHOWN, "• and {} more")
    if failed:
        down = f"{_listed(failed)} {'does' if len(failed) == 1 else 'do'}n't run with it"
        halted = "*Configuration halted*:" if _with(results, "held") else "*Configuration applied*, but"
        headline, color = f":red_circle: {halted} {down}", Color.CRITICAL
        if held:
            lines.append(f"{_listed(held)} {'keeps' if len(held) == 1 else 'keep'} running with the older settings.")
        lines.append("Fix the configuration. It's applied as soon as the file changes.")
    else:
        facts = "; ".join(done) or "no worker restarted"
        headline, color = f":white_check_mark: *Configuration applied*: {facts}", Color.GOOD
    body = [section("\n".join(lines))] if lines else []
    return card(headline, color, [*body, _small_print(said)])


def _small_print(said: Mapping[str, Any]) -> Json:
    return context(f"{_data(said['owner'])} · {in_span(str(said['path']), PATH)} · version {said['version']}")


def _with(results: Mapping[str, str], *wanted: str) -> list[str]:
    return sorted(name for name, result in results.items() if result in wanted)


def _listed(names: Sequence[str]) -> str:
    if len(names) > NAMES:
        return count(len(names), "worker")
    *others, last = map(_data, names) if names else [""]
    return f"{', '.join(others)} and {last}" if others else last


def _data(text: object) -> str:
    return inert(str(text), LINE)


IDS_SHOWN = 8
"""Troubles with a line of their own; the others are counted."""

ID_LINE = 300  # characters of one


def unknown_ids(host: str, troubles: Sequence[str]) -> Content:
    """One notice for all of them. Everybody in the channel reads it: nobody is mentioned, ids stand as they are."""
    lines = first_lines([f"• {inert(trouble, ID_LINE)}" for trouble in troubles], IDS_SHOWN, "• and {} more")
    headline = f":warning: *Slack and the configuration of {inert(host, LINE)} disagree*"
    lines.append("Unknown people and groups have no rights. `supervisor doctor` checks again.")
    return card(headline, Color.WARNING, [section("\n".join(lines))])


_BELONGS = {
    "alert_channel": "alerts",
    "approval_channel": "approval requests",
    "fallback_channel": "messages without another channel",
}


def unreachable_channel(host: str, channel: str, refused: str, keys: Sequence[str], fallback: str, bot: str) -> Content:
    """The notice for admins: the channel, the reason, the place of its messages meanwhile, and the remedy."""
    what = " and ".join(_BELONGS[key] for key in keys)
    settings = " and ".join(f"`slack.{key}`" for key in keys)
    meanwhile = (
        f"Until then they are posted in <#{fallback}>."
        if fallback and fallback != channel
        else "Until then nobody sees them in Slack: `supervisor alerts` on the host lists them."
    )
    invite = f"`/invite @{bot}` in the channel"
    fix = {
        "is_archived": "Unarchive the channel",
        "not_in_channel": f"Type {invite}",
        "channel_not_found": f"Check that the channel exists and type {invite}",
    }.get(refused, f"Let @{bot} post there")
    lines = [
        f"Affected: {what} of {inert(host, LINE)}. {meanwhile}",
        f"{fix}. Or set another channel in {settings} and run `supervisor daemon restart` on the host.",
        "Waiting messages are posted then.",
    ]
    headline = f":no_entry: *Can't post in <#{channel}>* (`{channel}`): {refused}"
    return card(headline, Color.CRITICAL, [section("\n".join(lines))])
