"""The checks of the configured channels: each exists, isn't archived, and has the bot as a member."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from bot.doctor.slack_queries import SlackQueries, reason_of
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.doctor.checks import CheckResult

NAME = "slack_channels"
FIND = "To find a channel's id, click its name above the messages; it's at the end of the About tab."
CONVERSATIONS = ("C", "G", "D")


def configured_channels(config: SupervisorConfig) -> dict[str, list[str]]:
    """Every channel in the configuration, and the settings that name it."""
    found: dict[str, list[str]] = {}
    slack = config.slack
    for setting in ("alert_channel", "approval_channel", "fallback_channel"):
        if channel := getattr(slack, setting):
            found.setdefault(channel, []).append(f"slack.{setting}")
    for channel in slack.channels:
        found.setdefault(channel, []).append("slack.channels")
    for place, step in enumerate(config.alerts.escalation):
        for target in step.to:
            if target.startswith(CONVERSATIONS):
                found.setdefault(target, []).append(f"alerts.escalation[{place}].to")
    return found


async def check_channels(asking: SlackQueries, config: SupervisorConfig, bot: str) -> list[CheckResult]:
    """Return one line if all channels are fine, else one for each problem."""
    wanted = configured_channels(config)
    if not wanted:
        return [CheckResult(NAME, True, "none configured, so alerts and announcements aren't posted")]
    look_up = partial(asking.about, asking.client.conversations_info, "channel")
    answers = await asyncio.gather(*(look_up(channel=channel) for channel in wanted))
    troubles = [
        check
        for (channel, settings), answer in zip(wanted.items(), answers, strict=True)
        if (check := channel_problem(channel, settings, answer, bot))
    ]
    if troubles:
        return troubles
    names = ", ".join(f"#{answer.get('name') or channel}" for channel, answer in zip(wanted, answers, strict=True))
    return [CheckResult(NAME, True, f"@{bot} is a member of {names}")]


def channel_problem(channel: str, settings: list[str], answer: Mapping[str, Any], bot: str) -> CheckResult | None:
    """The failed result of this channel; None where nothing is wrong."""
    name, who = f"slack_channel_{channel}", f"{', '.join(settings)}: {channel}"
    if answer.get("error") == "channel_not_found":
        remedy = f"Correct the id in the configuration. {FIND} In a private channel, first run: /invite @{bot}"
        return CheckResult(name, False, f"{who} doesn't exist, or is private and the bot isn't a member", remedy)
    if answer.get("error") == "missing_scope":
        remedy = "Grant channels:read, or groups:read for a private channel (im:read for a direct message)."
        return CheckResult(name, True, f"{who} can't be checked: {reason_of(answer)}", remedy)
    if "error" in answer:
        return CheckResult(name, False, f"{who} can't be checked: {reason_of(answer)}", FIND)
    title = f"{who} (#{answer.get('name') or channel})"
    if answer.get("is_archived"):
        return CheckResult(name, False, f"{title} is archived", "Name another channel, or unarchive it in Slack.")
    if not answer.get("is_member") and not answer.get("is_im"):
        remedy = f"In #{answer.get('name') or channel}, run: /invite @{bot}"
        return CheckResult(name, False, f"@{bot} isn't a member of {title}", remedy)
    return None
