"""People over HTTP: one JSON object in, one out, for the page and for tests in any language."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable

from slack_playground.people.conversations import People
from slack_playground.people.interactions import Acting, InteractionPlace
from slack_playground.socket_mode.sockets import Outcome
from slack_playground.values import Json, PlaygroundError, names
from slack_playground.web_api.files import for_page
from slack_playground.world.elements import Found
from slack_playground.world.workspace import User
from slack_playground.world.world import World

Action = Callable[[User, Json], Awaitable[Json]]


class PersonHttp:
    """Each action by its name."""

    def __init__(self, world: World, people: People, acting: Acting) -> None:
        self._world, self._people, self._acting = world, people, acting
        self.actions: dict[str, Action] = {
            "post": self._post,
            "slash": self._slash,
            "act": self._act,
            "options": self._options,
            "submit": self._submit,
            "close": self._close,
            "home": self._home,
            "shortcut": self._shortcut,
            "assistant": self._assistant,
            "assistant_context": self._assistant_context,
            "react": self._react,
            "pin": self._pin,
            "edit": self._edit,
            "delete": self._delete,
            "upload": self._upload,
            "file": self._file,
            "read": self._read,
            "dm": self._dm,
            "join": self._join,
            "leave": self._leave,
            "invite": self._invite,
            "kick": self._kick,
        }

    async def do(self, name: str, body: Json) -> Json:
        """Carry out one action."""
        return await self.actions[name](self._world.workspace.user(body.get("as")), body)

    async def _post(self, user: User, body: Json) -> Json:
        text, thread_ts = str(body.get("text") or ""), str(body.get("thread_ts") or "")
        channel = self._people.place(user, body.get("channel"))
        if text.startswith("/") and len(text) > 1 and text[1].isalpha():
            return (await self._people.slash(user, channel, text)).to_json()
        broadcast = bool(body.get("broadcast"))
        message = self._people.post(user, channel, text, thread_ts=thread_ts, broadcast=broadcast)
        return {"ok": True, "ts": message["ts"], "outcome": "none"}

    async def _slash(self, user: User, body: Json) -> Json:
        channel = self._people.place(user, body.get("channel"))
        return (await self._people.slash(user, channel, str(body.get("text") or ""))).to_json()

    async def _act(self, user: User, body: Json) -> Json:
        place = self._acting.place(user, body)
        found = self._find(place, body)
        confirmed = bool(body.get("confirmed"))
        outcome = await self._acting.act(place, found, body.get("value"), confirmed=confirmed)
        url = found.element.get("url")
        return outcome.to_json() | ({"url": url} if url else {})

    def _find(self, place: InteractionPlace, body: Json) -> Found:
        return self._acting.find(place, body.get("block_id"), body.get("action_id"), body.get("attachment_id"))

    async def _options(self, user: User, body: Json) -> Json:
        place = self._acting.place(user, body)
        found = self._find(place, body)
        return await self._acting.options(place, found, str(body.get("query") or ""))

    async def _submit(self, user: User, body: Json) -> Json:
        values = body.get("values") or {}
        if not isinstance(values, dict) or not all(isinstance(each, dict) for each in values.values()):
            raise PlaygroundError("bad_values", "`values` must be {block_id: {action_id: value}}.")
        return await self._acting.submit(user, body.get("view_id"), values)

    async def _close(self, user: User, body: Json) -> Json:
        outcome = await self._acting.close(user, body.get("view_id"), everything=bool(body.get("all")))
        return outcome.to_json()

    async def _home(self, user: User, body: Json) -> Json:
        self._people.home(user, str(body.get("tab") or "home"))
        return {"ok": True, "channel": self._world.direct([self._world.bot.id, user.id]).id}

    async def _shortcut(self, user: User, body: Json) -> Json:
        where = {key: body[key] for key in ("channel", "ts") if body.get(key)}
        outcome: Outcome = await self._acting.shortcut(user, str(body.get("callback_id")), where)
        return outcome.to_json()

    async def _assistant(self, user: User, body: Json) -> Json:
        context = self._world.workspace.channel(body["channel"]) if body.get("channel") else None
        parent = self._people.assistant(user, context)
        return {"ok": True, "channel": parent["channel"], "ts": parent["ts"]}

    async def _assistant_context(self, user: User, body: Json) -> Json:
        own = self._world.direct([self._world.bot.id, user.id])
        parent = self._people.message(user, own, str(body.get("ts")))
        self._people.look_beside(user, parent, self._people.place(user, body.get("channel")))
        return {"ok": True}

    async def _pin(self, user: User, body: Json) -> Json:
        channel = self._people.place(user, body.get("channel"))
        self._people.pin(user, channel, str(body.get("ts")), remove=bool(body.get("remove")))
        return {"ok": True}

    async def _react(self, user: User, body: Json) -> Json:
        channel = self._people.place(user, body.get("channel"))
        remove = bool(body.get("remove"))
        self._people.react(user, channel, str(body.get("ts")), str(body.get("name")), remove=remove)
        return {"ok": True}

    async def _edit(self, user: User, body: Json) -> Json:
        channel = self._people.place(user, body.get("channel"))
        self._people.edit(user, channel, str(body.get("ts")), str(body.get("text") or ""))
        return {"ok": True}

    async def _delete(self, user: User, body: Json) -> Json:
        self._people.delete(user, self._people.place(user, body.get("channel")), str(body.get("ts")))
        return {"ok": True}

    async def _upload(self, user: User, body: Json) -> Json:
        channel = self._people.place(user, body.get("channel"))
        name, text = str(body.get("name") or "file"), str(body.get("text") or "")
        thread_ts = str(body.get("thread_ts") or "")
        message = self._people.upload(user, channel, name, _content(body), text, thread_ts)
        return {"ok": True, "ts": message["ts"]}

    async def _file(self, user: User, body: Json) -> Json:
        file = self._people.file(user, str(body.get("name") or "file"), _content(body))
        return {"ok": True, "file": for_page(file)}

    async def _read(self, user: User, body: Json) -> Json:
        self._world.read(self._people.place(user, body.get("channel")), user.id, str(body.get("ts") or ""))
        return {"ok": True}

    async def _dm(self, user: User, body: Json) -> Json:
        others = [self._world.workspace.user(word).id for word in names(body.get("users"), "users")]
        return {"ok": True, "channel": self._world.direct([user.id, *others]).id}

    async def _join(self, user: User, body: Json) -> Json:
        channel = self._world.workspace.channel(body.get("channel"))
        if channel.kind != "public":
            raise PlaygroundError("not_public", "You can join public channels only. Ask a member to invite you.")
        self._world.join(channel, user)
        return {"ok": True}

    async def _leave(self, user: User, body: Json) -> Json:
        self._world.leave(self._people.place(user, body.get("channel")), user)
        return {"ok": True}

    async def _invite(self, user: User, body: Json) -> Json:
        channel = self._people.place(user, body.get("channel"))
        self._world.join(channel, self._world.workspace.user(body.get("user")), user.id)
        return {"ok": True}

    async def _kick(self, user: User, body: Json) -> Json:
        channel = self._people.place(user, body.get("channel"))
        self._world.leave(channel, self._world.workspace.user(body.get("user")))
        return {"ok": True}


def _content(body: Json) -> bytes:
    try:
        return base64.b64decode(str(body.get("content") or ""), validate=True)
    except binascii.Error as error:
        raise PlaygroundError("bad_content", "`content` must be the file in base64.") from error
