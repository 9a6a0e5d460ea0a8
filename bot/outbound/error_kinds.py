"""The table of Slack's error codes: what kind of problem each one is, and its meaning in plain words.

The codes are those that Slack documents for the methods that we call (docs.slack.dev/reference/methods) and for all
methods. A code that isn't listed is of no known kind: the message waits and is tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ErrorKind(StrEnum):
    """The kind of a problem, by what can be done about it."""

    TEMPORARY = "temporary"
    """The same call may succeed later."""
    ACCESS = "access"
    """The app or its token isn't accepted: waiting doesn't help."""
    PERMISSION = "permission"
    """The app isn't allowed to make this call; others may work."""
    PLACE = "place"
    """The bot can't write to that channel or person: another place may take the message."""
    THREAD = "thread"
    """The bot can't reply in that thread; its channel may be fine."""
    ORIGINAL = "original"
    """The message is gone or can't be edited: a new one takes its place."""
    CONTENT = "content"
    """Slack refuses the content: plain text may be accepted."""
    UNKNOWN = "unknown"


_METADATA = "the message's metadata isn't valid"
_LINK = "an admin has disabled sharing such links with other organizations"
_REQUEST = "the request isn't valid"

ERRORS: Mapping[ErrorKind, Mapping[str, str]] = {
    ErrorKind.TEMPORARY: {
        "external_channel_migrating": "the channel is being migrated",
        "fatal_error": "Slack has an internal error",
        "internal_error": "Slack has an internal error",
        "message_limit_exceeded": "the workspace sends too many messages",
        "org_login_required": "the workspace is being migrated",
        "rate_limited": "too many calls",
        "ratelimited": "too many calls",
        "request_timeout": "the request arrived incomplete",
        "service_unavailable": "Slack is temporarily unavailable",
        "team_added_to_org": "the workspace is being migrated",
        "update_failed": "Slack has an internal error",
    },
    ErrorKind.ACCESS: {
        "account_inactive": "the app was uninstalled, or its workspace deleted",
        "app_not_installed": "the app isn't installed",
        "forbidden_team": "the app isn't allowed in this workspace",
        "invalid_auth": "the token isn't valid",
        "not_allowed_token_type": "the token is of the wrong type",
        "not_authed": "there's no token",
        "socket_mode_not_enabled": "Socket Mode is off for this app",
        "token_expired": "the token has expired",
        "token_revoked": "the token was revoked",
        "user_removed_from_team": "the app was removed from the workspace",
    },
    ErrorKind.PERMISSION: {
        "missing_scope": "the app lacks a scope",
        "no_permission": "the app lacks a permission",
        "team_access_not_granted": "the app isn't approved for this workspace",
    },
    ErrorKind.PLACE: {
        "app_access_restricted": "that person can't use this app",
        "channel_not_found": "it doesn't exist, or is private and the bot isn't a member",
        "ekm_access_denied": "an admin has suspended posting there",
        "invalid_channel": "it doesn't exist, or is private and the bot isn't a member",
        "invalid_user_combination": "that person shares no channel with the bot",
        "is_archived": "it's archived",
        "is_inactive": "it's archived, frozen or deleted",
        "messages_tab_disabled": "the app's Messages tab is off",
        "not_in_channel": "the bot is no longer a member",
        "posting_to_channel_denied": "the bot can't share files there",
        "restricted_action": "only some people can post there",
        "restricted_action_read_only_channel": "it's read-only",
        "restricted_action_thread_only_channel": "only thread replies are allowed",
        "user_disabled": "that person's account is deactivated",
        "user_not_found": "that person doesn't exist",
        "user_not_in_channel": "that person isn't a member",
        "user_not_visible": "the bot can't see that person",
    },
    ErrorKind.THREAD: {
        "cannot_reply_to_message": "that message can't have replies",
        "restricted_action_non_threadable_channel": "thread replies aren't allowed",
        "restricted_action_thread_locked": "an admin has locked the thread",
        "thread_not_found": "the thread is gone",
    },
    ErrorKind.ORIGINAL: {
        "block_mismatch": "the message can't be replaced by another kind",
        "cant_update_message": "the bot can't edit that message",
        "edit_window_closed": "it's too late to edit it",
        "message_not_found": "the message is gone",
    },
    ErrorKind.CONTENT: {
        "attachment_payload_limit_exceeded": "the attachments are too long",
        "invalid_arg_name": _REQUEST,
        "invalid_arguments": _REQUEST,
        "invalid_array_arg": _REQUEST,
        "invalid_attachments": "an attachment isn't valid",
        "invalid_blocks": "a block isn't valid",
        "invalid_blocks_format": "the blocks aren't valid",
        "invalid_charset": _REQUEST,
        "invalid_form_data": _REQUEST,
        "invalid_json": _REQUEST,
        "invalid_metadata_format": _METADATA,
        "invalid_metadata_schema": _METADATA,
        "invalid_post_type": _REQUEST,
        "json_not_object": _REQUEST,
        "markdown_text_conflict": _REQUEST,
        "metadata_must_be_sent_from_app": _METADATA,
        "metadata_too_large": "the message's metadata is too large",
        "missing_post_type": _REQUEST,
        "msg_blocks_too_long": "the blocks are too long",
        "msg_too_long": "the text is too long",
        "no_text": "the message has no text",
        "slack_connect_canvas_sharing_blocked": _LINK,
        "slack_connect_file_link_sharing_blocked": _LINK,
        "slack_connect_lists_sharing_blocked": _LINK,
        "too_many_attachments": "there are too many attachments",
        "too_many_contact_cards": "there are too many contact cards",
        "view_too_large": "the view is too large",
    },
}

_KINDS = {code: kind for kind, codes in ERRORS.items() for code in codes}
_MEANINGS = {code: words for codes in ERRORS.values() for code, words in codes.items()}

FORBIDDEN = frozenset({ErrorKind.ACCESS, ErrorKind.PERMISSION})
"""Somebody must change something at Slack or in our environment."""

UNWRITABLE = frozenset({ErrorKind.PLACE, ErrorKind.THREAD})
"""Another place may take the message."""

GONE = UNWRITABLE | {ErrorKind.ORIGINAL}
"""An edit isn't possible any more; a new message is posted."""


def kind_of_code(code: str) -> ErrorKind:
    """The kind of an error code."""
    return _KINDS.get(code, ErrorKind.UNKNOWN)


def may_mean_metadata(code: str) -> bool:
    """True for a refusal of the content that may be about the message's metadata."""
    return "metadata" in code or meaning_of_code(code) == _REQUEST


def meaning_of_code(code: str) -> str:
    """The meaning of an error code; empty if it isn't listed."""
    return _MEANINGS.get(code, "")
