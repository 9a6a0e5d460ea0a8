"""Slack's Web API, response URLs and file addresses: the HTTP endpoints that an app calls.

One module per family of methods; importing this package registers them all. People and the page don't belong here.
"""

from slack_playground.web_api import channels, chat, conversations, files, items, users, views
from slack_playground.web_api.dispatcher import Dispatcher

__all__ = ["Dispatcher", "channels", "chat", "conversations", "files", "items", "users", "views"]
