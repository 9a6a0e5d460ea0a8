"""Alerts: one for each problem, from a condition that changes to messages in the outbox.

Decisions are pure (`rules.py`); rows change by `step()`; Slack is the bot's.
"""
