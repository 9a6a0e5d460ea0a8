"""People over HTTP: one JSON object in, one out, for the page and for tests in any language."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable

from slack_playground.people.conversations import People
from slack_playground.people.interactions import Acting, InteractionPlace
from slack_playground.values import Json, PlaygroundError, names
from slack_playground.world.elements import Found
from slack_playground.world.workspace import Channel, User
from slack_playground.world.world import World


class PersonHttp:
    def __init__(self, world: World, people: People, acting: Acting) -> None:
        self._world, self._people, self._acting = world, people, acting
        self.actions: dict[str, Callable[[User, Json], Awaitable[Json]]] = {
            "post": self._post,
            "slash": self._slash,
            "act": self._act,
            "options": self._options,
            "submit": self._submit,
            "close": self._close,
            "home": self._home,
            "shortcut": self._shortcut,
            "react": self._react,
            "pin": self._pin,
            "edit": self._edit,
            "delete": self._delete,
            "upload": self._upload,
            "read": self._read,
            "dm": self._dm,
            "join": self._join,
            "leave": self._leave,
            "invite": self._invite,
            "kick": self._kick,
        }

    async def do(self, name: str, body: Json) -> Json:
        return {"ok": True} | await self.actions[name](self._world.workspace.user(body.get("as")), body)

    def _channel(self, user: User, body: Json) -> Channel:
        return self._people.place(user, body.get("channel"))

    async def _post(self, user: User, body: Json) -> Json:
        text, thread_ts = str(body.get("text") or ""), str(body.get("thread_ts") or "")
        if text.startswith("/") and text[1:2].isalpha():
            return await self._slash(user, body)
        channel, broadcast = self._channel(user, body), bool(body.get("broadcast"))
        message = self._people.post(user, channel, text, thread_ts=thread_ts, broadcast=broadcast)
        return {"ts": message["ts"], "outcome": "none"}

    async def _slash(self, user: User, body: Json) -> Json:
        return (await self._people.slash(user, self._channel(user, body), str(body.get("text") or ""))).to_json()

    def _element(self, user: User, body: Json) -> tuple[InteractionPlace, Found]:
        place = self._acting.place(user, body)
        return place, self._acting.find(place, body.get("block_id"), body.get("action_id"), body.get("attachment_id"))

    async def _act(self, user: User, body: Json) -> Json:
        place, found = self._element(user, body)
        outcome = await self._acting.act(place, found, body.get("value"), confirmed=bool(body.get("confirmed")))
        url = found.element.get("url")
        return outcome.to_json() | ({"url": url} if url else {})

    async def _options(self, user: User, body: Json) -> Json:
        place, found = self._element(user, body)
        return await self._acting.options(place, found, str(body.get("query") or ""))

    async def _submit(self, user: User, body: Json) -> Json:
        values = body.get("values") or {}
        if not isinstance(values, dict) or not all(isinstance(each, dict) for each in values.values()):
            raise PlaygroundError("bad_values", "`values` must be {block_id: {action_id: value}}.")
        return await self._acting.submit(user, body.get("view_id"), values)

    async def _close(self, user: User, body: Json) -> Json:
        return (await self._acting.close(user, body.get("view_id"), everything=bool(body.get("all")))).to_json()

    async def _home(self, user: User, body: Json) -> Json:
        self._people.home(user, str(body.get("tab") or "home"))
        return {"channel": self._world.direct([self._world.bot.id, user.id]).id}

    async def _shortcut(self, user: User, body: Json) -> Json:
        where = {key: body[key] for key in ("channel", "ts") if body.get(key)}
        return (await self._acting.shortcut(user, str(body.get("callback_id")), where)).to_json()

    async def _react(self, user: User, body: Json) -> Json:
        channel, remove = self._channel(user, body), bool(body.get("remove"))
        self._people.react(user, channel, str(body.get("ts")), str(body.get("name")), remove=remove)
        return {}

    async def _pin(self, user: User, body: Json) -> Json:
        self._people.pin(user, self._channel(user, body), str(body.get("ts")), remove=bool(body.get("remove")))
        return {}

    async def _edit(self, user: User, body: Json) -> Json:
        self._people.edit(user, self._channel(user, body), str(body.get("ts")), str(body.get("text") or ""))
        return {}

    async def _delete(self, user: User, body: Json) -> Json:
        self._people.delete(user, self._channel(user, body), str(body.get("ts")))
        return {}

    async def _upload(self, user: User, body: Json) -> Json:
        try:
            content = base64.b64decode(str(body.get("content") or ""), validate=True)
        except binascii.Error as error:
            raise PlaygroundError("bad_content", "`content` must be the file in base64.") from error
        name, text, thread_ts = (str(body.get(key) or "") for key in ("name", "text", "thread_ts"))
        message = self._people.upload(user, self._channel(user, body), name or "file", content, text, thread_ts)
        return {"ts": message["ts"]}

    async def _read(self, user: User, body: Json) -> Json:
        self._world.read(self._channel(user, body), user.id, str(body.get("ts") or ""))
        return {}

    async def _dm(self, user: User, body: Json) -> Json:
        others = [self._world.workspace.user(word).id for word in names(body.get("users"), "users")]
        return {"channel": self._world.direct([user.id, *others]).id}

    async def _join(self, user: User, body: Json) -> Json:
        channel = self._world.workspace.channel(body.get("channel"))
        if channel.kind != "public":
            raise PlaygroundError("not_public", "You can join public channels only. Ask a member to invite you.")
        self._world.join(channel, user)
        return {}

    async def _leave(self, user: User, body: Json) -> Json:
        self._world.leave(self._channel(user, body), user)
        return {}

    async def _invite(self, user: User, body: Json) -> Json:
        self._world.join(self._channel(user, body), self._world.workspace.user(body.get("user")), user.id)
        return {}

    async def _kick(self, user: User, body: Json) -> Json:
        self._world.leave(self._channel(user, body), self._world.workspace.user(body.get("user")))
        return {}
