"""The scopes that the bot's token needs, each with what it is for: the source of manifest.yml and of `doctor`.

Only what the code of today uses is here. A feature that needs another scope brings its line along, and `doctor` then
says that the app must be installed again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from supervisor_core.common.errors import SupervisorError

EVERYTHING = "*"
"""What a playground without a manifest grants."""


@dataclass(frozen=True, slots=True)
class Need:
    """One scope. `what` completes the words "without it there is no"; of an optional one it says what it is for."""

    scope: str
    what: str
    methods: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    optional: bool = False
    """Without it everything works but what `what` names. Whoever installs the app may leave it out."""


MANIFESTS = tuple(folder / "manifest.yml" for folder in Path(__file__).parents[:2])
"""The app's manifest in an installed wheel, and in a checkout."""

LOOK_UP = ("conversations.history", "conversations.replies")
LOOKED_UP = "checking whether a message was posted when Slack's response was lost, to avoid posting it twice"

NEEDS = (
    Need("app_mentions:read", "commands by mention (@supervisor restart)", events=("app_mention",)),
    Need(
        "channels:read",
        "checking membership of public channels, and rights by channel",
        methods=("conversations.info", "conversations.members"),
        events=("member_joined_channel",),
    ),
    Need(
        "chat:write",
        "posting messages",
        methods=("chat.postMessage", "chat.update", "chat.postEphemeral"),
    ),
    Need("commands", "the slash command /supervisor"),
    Need("im:history", "commands by direct message", methods=LOOK_UP, events=("message.im",)),
    Need("users:read", "identifying people, for all rights", methods=("users.info", "bots.info")),
    Need("channels:history", LOOKED_UP, methods=LOOK_UP, optional=True),
    Need(
        "groups:read",
        "checking membership of private channels, and rights by private channel",
        methods=("conversations.info", "conversations.members"),
        optional=True,
    ),
    Need(
        "im:write",
        "finding direct messages again when Slack's response was lost, and files in them",
        methods=("conversations.open",),
        optional=True,
    ),
    Need(
        "usergroups:read",
        "rights by user group",
        methods=("usergroups.users.list", "usergroups.list"),
        optional=True,
    ),
    Need(
        "users:read.email",
        "finding the people on call whose email addresses a source lists",
        methods=("users.lookupByEmail",),
        optional=True,
    ),
    Need("groups:history", LOOKED_UP, methods=LOOK_UP, optional=True),
    Need(
        "files:write",
        "uploading reports and lists; without it they're shortened to text",
        methods=("files.getUploadURLExternal", "files.completeUploadExternal"),
        optional=True,
    ),
)

FREE = frozenset(
    {"apps.connections.open", "auth.test", "chat.getPermalink", "views.open", "views.publish", "views.update"}
)
"""Methods that need no scope of the bot's token. The first wants the app-level token, with `connections:write`."""

REQUIRED = frozenset(need.scope for need in NEEDS if not need.optional)
OPTIONAL = frozenset(need.scope for need in NEEDS if need.optional)
METHODS = FREE | {method for need in NEEDS for method in need.methods}
EVENTS = {event: need.scope for need in NEEDS for event in need.events} | {"app_home_opened": ""}
"""What the app is told of, and the scope that each needs; none where that is empty."""


def missing(granted: Collection[str]) -> list[Need]:
    """What was not granted, the required ones first."""
    if EVERYTHING in granted:
        return []
    return sorted((need for need in NEEDS if need.scope not in granted), key=lambda need: need.optional)


def manifest_path() -> Path | None:
    """The app's manifest; None if neither a wheel nor a checkout has it."""
    return next((path for path in MANIFESTS if path.exists()), None)


def manifest() -> str:
    """The content of the app's manifest."""
    path = manifest_path()
    if path is None:
        raise SupervisorError("The Slack app's manifest is missing.", remedy="Reinstall supervisor-chatops.")
    return path.read_text(encoding="utf-8")
