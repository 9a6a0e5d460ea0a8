"""The methods: for each its scopes, its rate tier, the arguments it must have and may have, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slack_playground.values import Json

if TYPE_CHECKING:
    from slack_playground.web_api.call import Call

ANYTHING = "*"
"""Among the optional arguments of a method that takes any."""

Handler = Callable[["Call"], Json]


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

METHODS = {
    "api.test": Method((), "t4", (), (ANYTHING,), any_token=True),
    "apps.connections.open": Method((), "t3", (), (), app_token=True),
    "auth.test": _method("", "t5"),
    "bots.info": _method("users:read", "t3", "", "bot team_id", json=False),
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
    "chat.update": _method(
        "chat:write", "t3", "channel ts", f"{_CONTENT} reply_broadcast file_ids unfurled_attachments unfurl_links"
    ),
    "conversations.create": _method(_MANAGE, "t2", "name", "is_private team_id"),
    "conversations.history": _method(_HISTORY, "t3", "channel", f"{_SPAN} {_PAGE}"),
    "conversations.info": _method(_READ, "t3", "channel", "include_locale include_num_members", json=False),
    "conversations.invite": _method(_INVITE, "t3", "channel users", "force"),
    "conversations.join": _method("channels:join", "t3", "channel"),
    "conversations.list": _method(_READ, "t2", "", f"exclude_archived types team_id {_PAGE}", json=False),
    "conversations.members": _method(_READ, "t4", "channel", _PAGE, json=False),
    "conversations.open": _method("im:write mpim:write groups:write channels:manage", "t3", "", "users return_im"),
    "conversations.replies": _method(_HISTORY, "t3", "channel ts", f"{_SPAN} {_PAGE}", json=False),
    "conversations.setTopic": _method(f"{_MANAGE} channels:write.topic groups:write.topic", "t2", "channel topic"),
    "files.completeUploadExternal": _method(
        "files:write", "t4", "files", f"channel_id channels thread_ts initial_comment blocks {_LOOK}"
    ),
    "files.getUploadURLExternal": _method("files:write", "t4", "filename length", "snippet_type alt_txt", json=False),
    "files.info": _method("files:read", "t4", "file", f"count page {_PAGE}", json=False),
    "pins.add": _method("pins:write", "t2", "channel", "timestamp"),
    "pins.list": _method("pins:read", "t2", "channel", json=False),
    "pins.remove": _method("pins:write", "t2", "channel", "timestamp"),
    "reactions.add": _method("reactions:write", "t3", "channel name timestamp"),
    "reactions.remove": _method("reactions:write", "t2", "name", "channel timestamp file file_comment"),
    "team.info": _method("team:read", "t3", "", "domain team"),
    "usergroups.list": _method(
        "usergroups:read", "t2", "", "include_count include_disabled include_users team_id", json=False
    ),
    "usergroups.users.list": _method("usergroups:read", "t2", "usergroup", "include_disabled team_id", json=False),
    "users.info": _method("users:read", "t4", "user", "include_locale", json=False),
    "users.list": _method("users:read", "t2", "", f"include_locale team_id {_PAGE}", json=False),
    "users.lookupByEmail": _method("users:read.email", "t3", "email", json=False),
    "views.open": _method("", "t4", "view", _TRIGGER),
    "views.publish": _method("", "t4", "user_id view", "hash interactivity_pointer"),
    "views.push": _method("", "t4", "view", _TRIGGER),
    "views.update": _method("", "t4", "view", "view_id external_id hash"),
}

HANDLERS: dict[str, Handler] = {}


def handles(name: str) -> Callable[[Handler], Handler]:

    def register(handler: Handler) -> Handler:
        HANDLERS[name] = handler
        return handler

    return register
