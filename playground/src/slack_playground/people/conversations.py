"""Actions of people in conversations: talk, command, react, join and leave."""

from __future__ import annotations

from slack_playground.people.markup import escape, to_markup
from slack_playground.socket_mode.payloads import Payloads
from slack_playground.socket_mode.sockets import ACKED, Outcome, Sockets
from slack_playground.values import Json, PlaygroundError, SlackError
from slack_playground.web_api import views
from slack_playground.web_api.bot_endpoints import show_answer
from slack_playground.web_api.files import for_bot, new_file
from slack_playground.world import event_payloads
from slack_playground.world.grants import Grants
from slack_playground.world.workspace import Channel, User
from slack_playground.world.world import World


class People:
    def __init__(self, world: World, grants: Grants, sockets: Sockets) -> None:
        self._world, self._grants, self._sockets = world, grants, sockets
        self._payloads = Payloads(world, grants)

    def note(self, user: User, does: str, **what: object) -> None:
        self._world.journal.write("person", user=user.id, does=does, what=what)

    def place(self, user: User, word: object) -> Channel:
        """A channel that this user is in."""
        channel = self._world.workspace.channel(word)
        if user.id not in channel.members:
            name = channel.name or channel.id
            raise PlaygroundError("not_in_channel", f"{user.name} is not a member of #{name}.")
        return channel

    def post(
        self,
        user: User,
        channel: Channel,
        text: str,
        *,
        thread_ts: str = "",
        broadcast: bool = False,
        files: list[Json] | None = None,
    ) -> Json:
        if channel.archived:
            raise PlaygroundError("is_archived", f"#{channel.name} is archived.")
        app = self._world.app
        closed = not app.messages_tab or app.messages_read_only
        if closed and channel.kind == "im" and self._world.bot.id in channel.members:
            raise PlaygroundError("messages_tab_disabled", "Sending messages to this app has been turned off.")
        parent = channel.messages.get(thread_ts)
        if thread_ts and parent is None:
            raise PlaygroundError("message_not_found", f"There is no message {thread_ts} to reply to.", status=404)
        if not text.strip() and not files:
            raise PlaygroundError("no_text", "The message is empty.")
        fields: Json = {"user": user.id, "team": user.team_id, "text": to_markup(text, self._world.workspace)}
        fields |= {"client_msg_id": self._world.fresh(), "files": files, "upload": True if files else None}
        if parent:
            fields |= {"thread_ts": parent.get("thread_ts") or parent["ts"], "broadcast": broadcast or None}
        self.note(user, "post", channel=channel.id, text=text, thread_ts=thread_ts)
        return self._world.post(channel, fields)

    async def slash(self, user: User, channel: Channel, text: str) -> Outcome:
        """Give a slash command, and wait for its ack."""
        word, _, rest = text.strip().partition(" ")
        command = self._world.app.command(word)
        self.note(user, "slash", channel=channel.id, text=text)
        if command is None:
            self._world.notice(user, channel, f"{word} is not a valid command.")
            known = ", ".join(each["command"] for each in self._world.app.commands)
            raise PlaygroundError("unknown_command", f"{word} is not a valid command; the app has {known or 'none'}.")
        if command.get("should_escape"):
            rest = to_markup(rest.strip(), self._world.workspace, names=True)
        else:
            rest = escape(rest.strip())
        payload = self._payloads.command(user, channel, word, rest)
        outcome = await self._sockets.deliver("slash_commands", payload, answers=True)
        if outcome.outcome != ACKED:
            self._world.notice(user, channel, f'{word} failed with the error "{outcome.outcome}"')
        elif outcome.payload:
            path = payload["response_url"].removeprefix(self._world.base_url)
            try:
                show_answer(self._world, self._grants.urls[path], outcome.payload)
            except SlackError as error:
                self._world.notice(user, channel, f'{word} failed with the error "{error.error}"')
        return outcome

    def home(self, user: User, tab: str = "home") -> None:
        """Open the app's Home, or its messages."""
        world = self._world
        channel = world.direct([world.bot.id, user.id])
        self.note(user, "home", tab=tab)
        view = world.workspace.homes.get(user.id)
        told = views.for_bot(view) if view else None
        world.send_event(event_payloads.of_home(user, tab, channel, told, world.workspace.new_ts()))

    def pin(self, user: User, channel: Channel, ts: str, *, remove: bool) -> None:
        self.note(user, "pin", channel=channel.id, ts=ts, remove=remove)
        self._world.pin(channel, self.message(user, channel, ts), user, remove=remove)

    def edit(self, user: User, channel: Channel, ts: str, text: str) -> None:
        message = self._own(user, channel, ts)
        self.note(user, "edit", channel=channel.id, ts=ts, text=text)
        self._world.change(channel, message, by=user.id, text=to_markup(text, self._world.workspace))

    def delete(self, user: User, channel: Channel, ts: str) -> None:
        """Take back an own message, or dismiss one that only this user sees."""
        message = channel.messages.get(ts, {})
        if message.get("ephemeral_for") != user.id:
            message = self._own(user, channel, ts)
        self.note(user, "delete", channel=channel.id, ts=ts)
        self._world.delete(channel, message)

    def react(self, user: User, channel: Channel, ts: str, name: str, *, remove: bool) -> None:
        self.note(user, "react", channel=channel.id, ts=ts, name=name, remove=remove)
        self._world.react(channel, self.message(user, channel, ts), user, name.strip(":"), remove=remove)

    def upload(self, user: User, channel: Channel, name: str, content: bytes, text: str, thread_ts: str = "") -> Json:
        file = new_file(self._world, name, user.id, content=content)
        file.ready = True
        return self.post(user, channel, text, thread_ts=thread_ts, files=[for_bot(self._world, file)])

    def message(self, user: User, channel: Channel, ts: str) -> Json:
        """A message that this user sees."""
        message = channel.messages.get(ts)
        if message is None or message.get("ephemeral_for") not in (None, user.id):
            raise PlaygroundError("message_not_found", f"There is no message {ts} that {user.name} sees.", status=404)
        return message

    def _own(self, user: User, channel: Channel, ts: str) -> Json:
        message = self.message(user, channel, ts)
        if message.get("user") != user.id:
            raise PlaygroundError("not_yours", f"{user.name} did not write the message {ts}.")
        return message
