"""Slack's rows of `supervisor doctor`: tokens, app, channels and people. The table itself is the core's."""
