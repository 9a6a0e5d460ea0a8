"""Actions on the world over HTTP: people, channels, groups, faults, connections, the clock, and waiting for a text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from slack_playground.people import transcript
from slack_playground.socket_mode.sockets import Sockets
from slack_playground.values import Json, PlaygroundError, names, number
from slack_playground.world.world import World

WAITS = 5.0  # seconds, where nothing else was said
LONGEST = 600.0
USER_FIELDS = {
    **dict.fromkeys(("real_name", "display_name", "email", "tz", "team_id"), str),
    **dict.fromkeys(("is_bot", "is_admin", "is_restricted", "is_ultra_restricted", "deleted"), bool),
}


class WorldHttp:
    def __init__(self, world: World, sockets: Sockets) -> None:
        self._world, self._sockets = world, sockets
        self.actions: dict[str, Callable[[Json], Awaitable[Json]]] = {
            "users": self._users,
            "channels": self._channels,
            "usergroups": self._usergroups,
            "faults": self._faults,
            "socket": self._socket,
            "token": self._token,
            "clock": self._clock,
            "latency": self._latency,
            "reset": self._reset,
            "expect": self._expect,
        }

    async def _users(self, body: Json) -> Json:
        name = _word(body, "name").removeprefix("@")
        if not name:
            raise PlaygroundError("no_name", "`name` is required.")
        fields = {key: value for key, value in body.items() if key in USER_FIELDS}
        wrong = [key for key, value in fields.items() if not isinstance(value, USER_FIELDS[key])]
        if wrong:
            raise PlaygroundError("bad_value", f"`{wrong[0]}` can't be {fields[wrong[0]]!r}.")
        user = self._world.workspace.find_user(name)
        if user is None:
            user = self._world.add_user(name, **fields)
        else:
            self._world.set_user(user, **fields)
        if body.get("joins"):
            self._world.greet(user)
        return {"ok": True, "user": user.to_json()}

    async def _channels(self, body: Json) -> Json:
        name = _word(body, "name").removeprefix("#")
        if not name:
            raise PlaygroundError("no_name", "`name` is required.")
        space = self._world.workspace
        members = body.get("members")
        ids = None if members is None else [space.user(word).id for word in names(members, "members")]
        channel = space.find_channel(name)
        if channel is None:
            channel = self._world.add_channel(name, "private" if body.get("private") else "public", ids)
        elif ids is not None:
            self._world.set_channel(channel, members=ids)
        changes = {key: body[key] for key in ("archived", "topic") if key in body}
        if changes:
            self._world.set_channel(channel, **changes)
        return {"ok": True, "channel": channel.to_json()}

    async def _usergroups(self, body: Json) -> Json:
        handle = str(body.get("handle") or "").removeprefix("@")
        if not handle:
            raise PlaygroundError("no_handle", "`handle` is required.")
        users = [self._world.workspace.user(word).id for word in names(body.get("users"), "users")]
        group = self._world.set_group(handle, str(body.get("name") or ""), users)
        return {"ok": True, "usergroup": group.to_json()}

    async def _faults(self, body: Json) -> Json:
        words = {key: value for key, value in body.items() if key not in ("id", "struck")}
        if "kind" not in words:
            raise PlaygroundError("no_kind", "`kind` is required.")
        fault = self._world.faults.add(str(words.pop("kind")), str(words.pop("method", "*")), **words)
        self._world.journal.write("fault", fault=fault.to_json())
        return {"ok": True, "id": fault.id, "faults": self._world.faults.to_json()}

    async def _socket(self, body: Json) -> Json:
        which = body.get("connection")
        struck = await self._sockets.control(
            str(body.get("do")), int(number(which, "connection")) if which is not None else None
        )
        return {"ok": True, "connections": struck}

    async def _token(self, body: Json) -> Json:
        self._world.revoked = bool(body.get("revoked"))
        return {"ok": True, "revoked": self._world.revoked}

    async def _clock(self, body: Json) -> Json:
        self._world.clock.ahead += number(body.get("advance"), "advance")
        return {"ok": True, "now": self._world.clock.now()}

    async def _latency(self, body: Json) -> Json:
        self._world.latency = min(max(number(body.get("seconds"), "seconds"), 0), LONGEST)
        return {"ok": True, "seconds": self._world.latency}

    async def _reset(self, _body: Json) -> Json:
        self._world.reset()
        return {"ok": True}

    async def _expect(self, body: Json) -> Json:
        space = self._world.workspace
        channel = space.channel(body.get("channel"))
        viewer = space.user(body["as"]) if body.get("as") else None
        text, count, absent = str(body.get("text") or ""), body.get("count"), bool(body.get("absent"))

        wanted = int(number(count, "count"))

        def found() -> list[Json]:
            return transcript.matching(channel, viewer, text, space)

        def fits() -> bool:
            there = len(found())
            return there == 0 if absent else there == wanted if count is not None else there > 0

        timeout = min(number(body.get("timeout"), "timeout", WAITS), LONGEST)
        if await self._world.feed.until(fits, timeout):
            return {"ok": True, "messages": found()}
        missed = "no message" if absent else f"{count} messages" if count is not None else "a message"
        words = f"Expected {missed} with {text!r} in #{channel.name or channel.id} within {timeout:g} s."
        conversation = "\n".join(transcript.conversation(channel, viewer, space))
        raise PlaygroundError("not_seen", words, status=HTTPStatus.CONFLICT, conversation=conversation)


def _word(body: Json, name: str) -> str:
    value = body.get(name) or ""
    if not isinstance(value, str):
        raise PlaygroundError("bad_value", f"`{name}` is text, not {value!r}.")
    return value
