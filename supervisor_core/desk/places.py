"""Where people are told of what nobody has asked for."""

from __future__ import annotations

from supervisor_core.config import SupervisorConfig


def place_of(config: SupervisorConfig) -> dict[str, str] | None:
    """The channel in which alerts are told; None where there is none: the log has them, and `supervisor alerts`."""
    channel = config.slack.alert_channel or config.slack.fallback_channel
    return {"channel": channel} if config.slack.enabled and channel else None
