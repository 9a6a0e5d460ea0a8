"""Alerts beyond Slack: their receivers and formats, and the dead man's switch."""
