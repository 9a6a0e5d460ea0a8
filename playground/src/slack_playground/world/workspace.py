"""The workspace: users, channels, messages, files and views, as Slack would hold them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from slack_playground.values import Clock, Json, PlaygroundError

KINDS = ("public", "private", "im", "mpim")
ID_LENGTH = 11


@dataclass
class User:
    id: str
    name: str
    team_id: str
    real_name: str = ""
    display_name: str = ""
    email: str = ""
    is_bot: bool = False
    is_admin: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    deleted: bool = False
    tz: str = "Etc/UTC"

    def to_json(self) -> Json:
        return dict(vars(self))

    def to_slack(self, *, email: bool) -> Json:
        """As users.info tells it; the address only to those who may read it."""
        first, _, last = self.real_name.partition(" ")
        profile: Json = {
            "first_name": first,
            "last_name": last,
            "real_name": self.real_name,
            "display_name": self.display_name,
            "team": self.team_id,
        }
        if email and self.email:
            profile["email"] = self.email
        known = {key: value for key, value in vars(self).items() if key not in ("display_name", "email")}
        return known | {
            "tz_offset": 0,
            "tz_label": "Coordinated Universal Time",
            "is_owner": False,
            "is_app_user": False,
            "profile": profile,
        }


@dataclass
class Channel:
    """One conversation with its messages, by their ts, oldest first."""

    id: str
    name: str
    kind: str
    created: int
    creator: str
    topic: str = ""
    archived: bool = False
    members: list[str] = field(default_factory=list)
    last_read: dict[str, str] = field(default_factory=dict)
    pins: list[str] = field(default_factory=list)
    messages: dict[str, Json] = field(default_factory=dict)

    def to_json(self) -> Json:
        return {key: value for key, value in vars(self).items() if key not in ("messages", "created", "creator")}

    def to_slack(self, viewer: str) -> Json:
        """As conversations.info tells it to this user."""
        common = {
            "id": self.id,
            "created": self.created,
            "is_archived": self.archived,
            "is_im": self.kind == "im",
            "is_org_shared": False,
            "updated": self.created * 1000,
            "context_team_id": "T0PLAYGROUND",
        }
        if self.kind == "im":
            others = [member for member in self.members if member != viewer] or [viewer]
            return common | {"user": others[0], "is_user_deleted": False, "is_open": True, "priority": 0}
        return common | {
            "name": self.name,
            "is_ext_shared": False,
            "is_channel": self.kind == "public",
            "is_group": self.kind in ("private", "mpim"),
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "public",
            "is_general": self.name == "general",
            "is_shared": False,
            "is_member": viewer in self.members,
            "creator": self.creator,
            "topic": {"value": self.topic, "creator": self.creator, "last_set": self.created},
            "purpose": {"value": "", "creator": self.creator, "last_set": self.created},
        }

    def thread(self, ts: str) -> list[Json]:
        return [m for m in self.messages.values() if ts in (m["ts"], m.get("thread_ts")) and not m.get("ephemeral_for")]


@dataclass
class UserGroup:
    id: str
    handle: str
    name: str
    team_id: str
    users: list[str] = field(default_factory=list)

    def to_json(self) -> Json:
        return dict(vars(self))


@dataclass
class File:
    id: str
    name: str
    title: str
    user: str
    created: int
    mimetype: str = "application/octet-stream"
    filetype: str = "binary"
    alt_txt: str = ""
    content: bytes = b""
    expected: int = 0
    ready: bool = False

    @property
    def path(self) -> str:
        return f"/files/{self.id}/{re.sub(r'[^A-Za-z0-9._-]', '_', self.name)}"


class Workspace:
    """Holds all of it. It changes nothing by itself and checks nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.team: Json = {"id": "T0PLAYGROUND", "name": "Playground", "domain": "playground"}
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self.groups: dict[str, UserGroup] = {}
        self.files: dict[str, File] = {}
        self.homes: dict[str, Json] = {}
        self.modals: dict[str, list[Json]] = {}
        self._last_ts = 0
        self._ids: set[str] = set()
        self._counter = 0

    def new_id(self, letter: str, name: str = "") -> str:
        """An id that reads like its name, because people read them in journals: operator is U0OPERATOR."""
        base = letter + "0" + re.sub(r"[^A-Z0-9]", "", name.upper())[: ID_LENGTH - 2]
        candidate = base if name and len(base) > 2 else ""
        while not candidate or candidate in self._ids:
            self._counter += 1
            candidate = f"{base[: ID_LENGTH - 4]}{self._counter:04d}" if name else f"{letter}{self._counter:010d}"
        self._ids.add(candidate)
        return candidate

    def new_ts(self) -> str:
        """A message's time, which is its name as well: never the same twice."""
        self._last_ts = max(self._last_ts + 1, int(self._clock.now() * 1_000_000))
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def find_user(self, word: object) -> User | None:
        if not isinstance(word, str):
            return None
        name = word.removeprefix("@")
        return self.users.get(word) or next((u for u in self.users.values() if u.name == name), None)

    def find_channel(self, word: object) -> Channel | None:
        if not isinstance(word, str):
            return None
        name = word.removeprefix("#")
        return self.channels.get(word) or next(
            (c for c in self.channels.values() if c.name == name and c.kind in ("public", "private")), None
        )

    def user(self, word: object) -> User:
        """By id or name, or a refusal that says who there is."""
        if user := self.find_user(word):
            return user
        names = ", ".join(user.name for user in self.users.values())
        raise PlaygroundError("user_not_found", f"There is no user {word!r}; there are {names}.", status=404)

    def channel(self, word: object) -> Channel:
        """By id or name, or a refusal that says what there is."""
        if channel := self.find_channel(word):
            return channel
        names = ", ".join(f"#{channel.name}" for channel in self.channels.values() if channel.name)
        raise PlaygroundError("channel_not_found", f"There is no channel {word!r}; there are {names}.", status=404)

    def direct(self, users: list[str]) -> Channel | None:
        wanted = set(users)
        found = (c for c in self.channels.values() if c.kind in ("im", "mpim") and set(c.members) == wanted)
        return next(found, None)

    def views(self) -> list[Json]:
        """All views that are open, and all Homes."""
        return [view for stack in self.modals.values() for view in stack] + list(self.homes.values())

    def view(self, view_id: object) -> Json | None:
        return next((view for view in self.views() if view["id"] == view_id), None)
