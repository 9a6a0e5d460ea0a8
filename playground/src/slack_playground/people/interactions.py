"""Actions of people on buttons, menus, fields and views: press, choose, type, submit and close."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from slack_playground.blockkit.messages import check_options
from slack_playground.people.conversations import People
from slack_playground.socket_mode.payloads import Payloads
from slack_playground.socket_mode.sockets import ACKED, Outcome, Sockets
from slack_playground.values import Json, PlaygroundError, SlackError
from slack_playground.web_api import views
from slack_playground.world import elements
from slack_playground.world.elements import Found
from slack_playground.world.grants import Grants
from slack_playground.world.workspace import Channel, User
from slack_playground.world.world import World

LONGEST_INPUT = 3000  # characters
TROUBLE = "We had some trouble connecting. Try again?"


@dataclass(frozen=True)
class InteractionPlace:
    """The message or view that an element stands in."""

    user: User
    blocks: list[Json]
    channel: Channel | None = None
    message: Json | None = None
    view: Json | None = None

    def attachment(self, found: Found) -> int | None:
        """The number of the attachment that the element stands in, if it stands in one."""
        return elements.attachment_of(self.message, found.block) if self.message else None

    def values(self) -> Json:
        """The values that this user chose and typed there so far."""
        if self.view is not None:
            values: Json = self.view["state"]["values"]
            return values
        assert self.message is not None  # noqa: S101 -- a place is one or the other
        states: Json = self.message.setdefault("state", {})
        mine: Json = states.setdefault(self.user.id, {})
        for found in elements.walk(self.blocks):
            state = elements.start(found.element)
            if state is not None:
                mine.setdefault(found.block["block_id"], {}).setdefault(found.element["action_id"], state)
        return mine


class Acting:
    """Lets any user use elements and views."""

    def __init__(self, world: World, grants: Grants, sockets: Sockets, people: People) -> None:
        self._world, self._sockets, self._people = world, sockets, people
        self._payloads = Payloads(world, grants)

    def place(self, user: User, where: Json) -> InteractionPlace:
        """The message or the view that these words name, as this user sees it."""
        if where.get("view_id"):
            view = self._view(user, where["view_id"])
            return InteractionPlace(user, view["blocks"], view=view)
        channel = self._people.place(user, where.get("channel"))
        message = self._people.message(user, channel, str(where.get("ts")))
        return InteractionPlace(user, elements.message_blocks(message), channel, message)

    def find(self, place: InteractionPlace, block_id: object, action_id: object, attachment_id: object = None) -> Found:
        """The element of these ids; the block may be left out where the action is the only one.

        A message and each of its attachments may use the same ids; `attachment_id` tells them apart.
        """
        for found in elements.walk(place.blocks):
            if attachment_id is not None and place.attachment(found) != attachment_id:
                continue
            if found.element["action_id"] == action_id and block_id in (None, "", found.block["block_id"]):
                return found
        there = ", ".join(f"{f.block['block_id']}/{f.element['action_id']}" for f in elements.walk(place.blocks))
        words = f"There is no element {block_id}/{action_id}; there are {there or 'none'}."
        raise PlaygroundError("no_such_element", words, status=404)

    async def act(self, place: InteractionPlace, found: Found, value: object, *, confirmed: bool = False) -> Outcome:
        element, block, world = found.element, found.block, self._world
        if "confirm" in element and not confirmed:
            words = "This element asks for confirmation."
            raise PlaygroundError("confirm_needed", words, confirm=element["confirm"])
        state = elements.state(element, value, self._world.workspace)
        values = place.values()
        if elements.start(element) is not None:
            values.setdefault(block["block_id"], {})[element["action_id"]] = state
        what = {"block_id": block["block_id"], "action_id": element["action_id"], "value": value}
        self._people.note(place.user, "act", **what)
        if block["type"] == "input" and not block.get("dispatch_action"):
            return Outcome("none", "")
        if not world.app.interactive:
            raise PlaygroundError("not_interactive", "This app isn't configured to handle interactive responses.")
        payload = self._on(place, "block_actions", found)
        payload["state"] = {"values": copy.deepcopy(values)}
        payload["actions"] = [self._payloads.action(block, element, {k: v for k, v in state.items() if k != "type"})]
        return await self._sockets.deliver("interactive", payload, answers=False)

    async def options(self, place: InteractionPlace, found: Found, query: str) -> Json:
        """The options that an external select offers for these words."""
        payload = self._on(place, "block_suggestion", found)
        payload |= {"block_id": found.block["block_id"], "action_id": found.element["action_id"], "value": query}
        for name in ("trigger_id", "response_url"):
            payload.pop(name, None)
        outcome = await self._sockets.deliver("interactive", payload, answers=True)
        answer = outcome.to_json()
        if outcome.outcome == ACKED:
            given = {k: v for k, v in (outcome.payload or {}).items() if k in ("options", "option_groups")}
            problems = check_options(given) if any(given.values()) else []
            answer |= {"ok": not problems} | (given if not problems else {"message": str(problems[0])})
        return answer

    async def submit(self, user: User, view_id: object, typed: Json) -> Json:
        view = self._top(user, view_id)
        place = InteractionPlace(user, view["blocks"], view=view)
        for block_id, actions in typed.items():
            for action_id, value in actions.items():
                found = self.find(place, block_id, action_id)
                state = elements.state(found.element, value, self._world.workspace)
                view["state"]["values"].setdefault(block_id, {})[action_id] = state
        missing = _missing(view)
        if missing:
            view["errors"] = missing
            self._world.set_modals(user.id, self._world.workspace.modals[user.id])
            raise PlaygroundError("required", "A required field is empty.", errors=missing)
        view.pop("errors", None)
        self._people.note(user, "submit", view_id=view["id"], values=view["state"]["values"])
        payload = self._payloads.in_view("view_submission", user, view)
        del payload["container"]
        payload["response_urls"] = self._payloads.response_urls(user, view)
        outcome = await self._sockets.deliver("interactive", payload, answers=True)
        answer = outcome.to_json()
        if outcome.outcome != ACKED:
            return answer | {"message": TROUBLE}
        try:
            return answer | self._answered(user, view, outcome.payload or {})
        except SlackError as error:
            words = error.fields.get("response_metadata", {}).get("messages", [error.error])
            self._world.journal.write("notice", user=user.id, text=f"{TROUBLE} ({error.error}: {words[0]})")
            return answer | {"message": TROUBLE, "error": error.error, "details": words}

    def _answered(self, user: User, view: Json, payload: Json) -> Json:
        """Carry out what the bot answered to a submission."""
        world = self._world
        stack = world.workspace.modals.get(user.id, [])
        match payload.get("response_action"):
            case None:
                world.set_modals(user.id, [each for each in stack if each is not view])
            case "clear":
                world.set_modals(user.id, [])
            case "errors":
                return {"errors": self._wrong(user, view, payload.get("errors"))}
            case "update":
                views.replace(world, view, views.check(payload.get("view") or {}))
            case "push":
                if len(stack) >= views.STACK:
                    raise SlackError("push_limit_reached")
                added = views.create(world, views.check(payload.get("view") or {}), user.id, stack)
                world.set_modals(user.id, [*stack, added])
            case other:
                raise SlackError("invalid_arguments", f"unknown response_action {other!r}")
        return {}

    def _wrong(self, user: User, view: Json, errors: object) -> Json:
        inputs = {block["block_id"] for block in view["blocks"] if block["type"] == "input"}
        if not isinstance(errors, dict) or not errors or not all(isinstance(word, str) for word in errors.values()):
            raise SlackError("invalid_arguments", "errors must map block_ids of inputs to text")
        strange = [block_id for block_id in errors if block_id not in inputs]
        if strange:
            raise SlackError("invalid_arguments", f"there is no input block {strange[0]!r} in this view")
        view["errors"] = errors
        self._world.set_modals(user.id, self._world.workspace.modals[user.id])
        return errors

    async def close(self, user: User, view_id: object, *, everything: bool) -> Outcome:
        view = self._top(user, view_id)
        stack = self._world.workspace.modals[user.id]
        closed = stack[::-1] if everything or view["clear_on_close"] else [view]
        self._world.set_modals(user.id, [each for each in stack if all(each is not one for one in closed)])
        self._people.note(user, "close", view_id=view["id"], all=everything)
        outcome = Outcome("none", "")
        for each in closed:
            if each["notify_on_close"]:
                payload = self._payloads.in_view("view_closed", user, each)
                for name in ("container", "trigger_id"):
                    del payload[name]
                outcome = await self._sockets.deliver(
                    "interactive", payload | {"is_cleared": len(closed) > 1}, answers=False
                )
        return outcome

    async def shortcut(self, user: User, callback_id: str, where: Json) -> Outcome:
        """Use a shortcut of the app, global or on a message."""
        payload: Json
        if where.get("ts"):
            place = self.place(user, where)
            payload = self._on(place, "message_action") | {"callback_id": callback_id}
            payload |= {"message_ts": payload["container"]["message_ts"]}
            del payload["container"]
        else:
            channel = self._world.workspace.channel(where["channel"]).id if where.get("channel") else ""
            payload = self._payloads.base("shortcut", user)
            payload |= {"callback_id": callback_id, "trigger_id": self._payloads.trigger(user, channel)}
        payload["action_ts"] = self._world.workspace.new_ts()
        self._people.note(user, "shortcut", callback_id=callback_id, **where)
        return await self._sockets.deliver("interactive", payload, answers=False)

    def _on(self, place: InteractionPlace, kind: str, found: Found | None = None) -> Json:
        if place.view is not None:
            return self._payloads.in_view(kind, place.user, place.view)
        assert place.channel is not None  # noqa: S101
        assert place.message is not None  # noqa: S101
        attachment = place.attachment(found) if found else None
        return self._payloads.on_message(kind, place.user, place.channel, place.message, attachment=attachment)

    def _view(self, user: User, view_id: object) -> Json:
        space = self._world.workspace
        mine = [*space.modals.get(user.id, []), *([space.homes[user.id]] if user.id in space.homes else [])]
        for view in mine:
            if view["id"] == view_id:
                return view
        raise PlaygroundError("view_not_found", f"{user.name} has no view {view_id!r} open.", status=404)

    def _top(self, user: User, view_id: object) -> Json:
        stack = self._world.workspace.modals.get(user.id, [])
        view = self._view(user, view_id)
        if not stack or stack[-1] is not view:
            raise PlaygroundError("not_on_top", f"The view {view_id!r} is not the one on top.")
        return view


def _missing(view: Json) -> Json:
    """The errors of Slack's own form: required fields that are empty, and values that are too short or too long."""
    wrong: Json = {}
    for block in view["blocks"]:
        if block["type"] != "input":
            continue
        element = block["element"]
        state = view["state"]["values"].get(block["block_id"], {}).get(element["action_id"]) or {"type": ""}
        if elements.is_empty(state):
            if not block.get("optional"):
                wrong[block["block_id"]] = "Please complete this required field."
        elif words := _wrong_value(element, str(state.get("value"))):
            wrong[block["block_id"]] = words
    return wrong


def _wrong_value(element: Json, value: str) -> str:
    match element["type"]:
        case "plain_text_input":
            least, most = element.get("min_length", 0), element.get("max_length", LONGEST_INPUT)
            if not least <= len(value) <= most:
                return f"Please enter {least} to {most} characters."
        case "number_input":
            return _wrong_number(element, value)
        case "email_text_input":
            return "" if "@" in value else "Please enter a valid email address."
        case "url_text_input":
            return "" if "://" in value else "Please enter a valid URL."
    return ""


def _wrong_number(element: Json, text: str) -> str:
    try:
        value = float(text) if element.get("is_decimal_allowed") else int(text)
    except ValueError:
        return "Please enter a number."
    low, high = element.get("min_value"), element.get("max_value")
    if (low is not None and value < float(low)) or (high is not None and value > float(high)):
        return f"Please enter a number from {low} to {high}."
    return ""
