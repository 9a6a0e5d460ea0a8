"""Slack's Web API: one module per family of methods; importing this package makes them all known."""

from bot.playground.api import chat, conversations, files, people, scheduling, views
from bot.playground.api.door import Door

__all__ = ["Door", "chat", "conversations", "files", "people", "scheduling", "views"]
