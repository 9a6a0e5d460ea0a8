"""The methods: for each its scopes, its rate tier, the arguments it must have and may have, and how it is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slack_playground.values import Json

if TYPE_CHECKING:
    from slack_playground.web_api.call import Call

ANYTHING = "*"
"""Among the optional arguments of a method that takes any."""

Handler = Callable[["Call"], "Json | Awaitable[Json]"]


@dataclass(frozen=True)
class Method:
    """One method before its handler runs. Any one of the scopes is enough for the dispatcher."""

    scopes: tuple[str, ...]
    tier: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    json: bool = True
    """Methods that only read take no JSON body, as with Slack."""
    app_token: bool = False
    any_token: bool = False
    """It works without a token."""
    either_token: bool = False
    """It takes the bot's token or the app-level one."""


def _method(scopes: str, tier: str, required: str = "", optional: str = "", *, json: bool = True) -> Method:
    return Method(tuple(scopes.split()), tier, tuple(required.split()), tuple(optional.split()), json=json)


_CONTENT = "text blocks attachments markdown_text metadata link_names parse as_user"
_LOOK = "username icon_emoji icon_url"
_PAGE = "cursor limit"
_SPAN = "oldest latest inclusive include_all_metadata"
_READ = "channels:read groups:read im:read mpim:read"
_HISTORY = "channels:history groups:history im:history mpim:history"
_TRIGGER = "trigger_id interactivity_pointer"

_MANAGE = "channels:manage groups:write"
_INVITE = "channels:manage channels:write.invites groups:write groups:write.invites"
_STREAM = "markdown_text chunks"

METHODS = {
    "api.test": Method((), "t4", (), (ANYTHING,), any_token=True),
    "apps.connections.open": Method((), "t3", (), (), app_token=True),
    "assistant.threads.setStatus": _method(
        "assistant:write chat:write", "t5", "channel_id thread_ts status", f"loading_messages {_LOOK}"
    ),
    "assistant.threads.setSuggestedPrompts": _method("assistant:write", "t4", "channel_id prompts", "thread_ts title"),
    "assistant.threads.setTitle": _method("assistant:write", "t4", "channel_id thread_ts title"),
    "auth.test": Method((), "t5", (), (), either_token=True),
    "bots.info": _method("users:read", "t3", "", "bot team_id", json=False),
    "chat.appendStream": _method("chat:write", "t4", "channel ts", _STREAM),
    "chat.delete": _method("chat:write", "t3", "channel ts", "as_user"),
    "chat.getPermalink": _method("", "t5", "channel message_ts", json=False),
    "chat.postEphemeral": _method("chat:write", "t4", "channel user", f"{_CONTENT} {_LOOK} thread_ts"),
    "chat.postMessage": _method(
        "chat:write",
        "t5",
        "channel",
        f"{_CONTENT} {_LOOK} thread_ts reply_broadcast mrkdwn unfurl_links unfurl_media container_id"
        " current_draft_last_updated_ts",
    ),
    "chat.deleteScheduledMessage": _method("chat:write", "t3", "channel scheduled_message_id", "as_user"),
    "chat.scheduledMessages.list": _method("", "t3", "", f"channel latest oldest team_id {_PAGE}"),
    "chat.scheduleMessage": _method(
        "chat:write", "t3", "channel post_at", f"{_CONTENT} {_LOOK} thread_ts reply_broadcast unfurl_links unfurl_media"
    ),
    "chat.startStream": _method(
        "chat:write",
        "t2",
        "channel thread_ts",
        f"{_STREAM} {_LOOK} recipient_team_id recipient_user_id task_display_mode",
    ),
    "chat.stopStream": _method("chat:write", "t2", "channel ts", f"{_STREAM} blocks metadata session_status"),
    "chat.update": _method(
        "chat:write", "t3", "channel ts", f"{_CONTENT} reply_broadcast file_ids unfurled_attachments unfurl_links"
    ),
    "conversations.archive": _method(_MANAGE, "t2", "channel"),
    "conversations.create": _method(_MANAGE, "t2", "name", "is_private team_id"),
    "conversations.history": _method(_HISTORY, "t3", "channel", f"{_SPAN} {_PAGE}"),
    "conversations.info": _method(_READ, "t3", "channel", "include_locale include_num_members", json=False),
    "conversations.invite": _method(_INVITE, "t3", "channel users", "force"),
    "conversations.join": _method("channels:join", "t3", "channel"),
    "conversations.kick": _method(_MANAGE, "t3", "channel user"),
    "conversations.leave": _method(_MANAGE, "t3", "channel"),
    "conversations.list": _method(_READ, "t2", "", f"exclude_archived types team_id {_PAGE}", json=False),
    "conversations.members": _method(_READ, "t4", "channel", _PAGE, json=False),
    "conversations.open": _method(
        "im:write mpim:write groups:write channels:manage", "t3", "", "channel users return_im prevent_creation"
    ),
    "conversations.rename": _method(_MANAGE, "t2", "channel name"),
    "conversations.replies": _method(_HISTORY, "t3", "channel ts", f"{_SPAN} {_PAGE}", json=False),
    "conversations.setTopic": _method(f"{_MANAGE} channels:write.topic groups:write.topic", "t2", "channel topic"),
    "conversations.unarchive": _method(_MANAGE, "t2", "channel"),
    "files.completeUploadExternal": _method(
        "files:write", "t4", "files", f"channel_id channels thread_ts initial_comment blocks {_LOOK}"
    ),
    "files.getUploadURLExternal": _method("files:write", "t4", "filename length", "snippet_type alt_txt", json=False),
    "files.info": _method("files:read", "t4", "file", f"count page {_PAGE}", json=False),
    "oauth.v2.access": Method(
        (),
        "t5",
        (),
        ("client_id", "client_secret", "code", "redirect_uri", "grant_type", "refresh_token"),
        any_token=True,
    ),
    "pins.add": _method("pins:write", "t2", "channel", "timestamp"),
    "pins.list": _method("pins:read", "t2", "channel", json=False),
    "pins.remove": _method("pins:write", "t2", "channel", "timestamp"),
    "reactions.add": _method("reactions:write", "t3", "channel name timestamp"),
    "reactions.get": _method("reactions:read", "t3", "", "channel timestamp full file file_comment", json=False),
    "reactions.list": _method("reactions:read", "t2", "", f"user full count page team_id {_PAGE}", json=False),
    "reactions.remove": _method("reactions:write", "t2", "name", "channel timestamp file file_comment"),
    "team.info": _method("team:read", "t3", "", "domain team"),
    "usergroups.list": _method(
        "usergroups:read", "t2", "", "include_count include_disabled include_users team_id", json=False
    ),
    "usergroups.users.list": _method("usergroups:read", "t2", "usergroup", "include_disabled team_id", json=False),
    "users.conversations": _method(
        _READ, "t3", "", f"user types exclude_archived exclude_muted team_id {_PAGE}", json=False
    ),
    "users.info": _method("users:read", "t4", "user", "include_locale", json=False),
    "users.list": _method("users:read", "t2", "", f"include_locale team_id {_PAGE}", json=False),
    "users.lookupByEmail": _method("users:read.email", "t3", "email", json=False),
    "users.profile.get": _method("users.profile:read", "t4", "", "user include_labels", json=False),
    "views.open": _method("", "t4", "view", _TRIGGER),
    "views.publish": _method("", "t4", "user_id view", "hash interactivity_pointer"),
    "views.push": _method("", "t4", "view", _TRIGGER),
    "views.update": _method("", "t4", "view", "view_id external_id hash"),
}

HANDLERS: dict[str, Handler] = {}


def handles(name: str) -> Callable[[Handler], Handler]:
    """Register the handler of a method."""

    def register(handler: Handler) -> Handler:
        HANDLERS[name] = handler
        return handler

    return register
