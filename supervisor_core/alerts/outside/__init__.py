"""Alerts beyond Slack: the webhook and the dead man's switch."""
