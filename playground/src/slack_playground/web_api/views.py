"""views.*: modals, their stack of three, and App Home."""

from __future__ import annotations

import copy

from slack_playground.values import Json, SlackError
from slack_playground.web_api import content
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world import elements
from slack_playground.world.grants import Trigger
from slack_playground.world.world import World

STACK = 3

OWN = ("user", "errors", "current")
"""Notes of the playground on a view, which the bot doesn't get."""

PARTS = ("type", "title", "submit", "close", "blocks", "private_metadata", "callback_id", "external_id")


@handles("views.open")
def open_(call: Call) -> Json:
    payload, trigger = _read_modal(call), _trigger(call)
    stack = call.world.workspace.modals.get(trigger.user, [])
    stack = stack if trigger.view_id and any(view["id"] == trigger.view_id for view in stack) else []
    return _push(call, trigger, stack, payload)


@handles("views.push")
def push(call: Call) -> Json:
    payload, trigger = _read_modal(call), _trigger(call)
    stack = call.world.workspace.modals.get(trigger.user, [])
    if not stack:
        raise SlackError("not_found")
    return _push(call, trigger, stack, payload)


def _push(call: Call, trigger: Trigger, stack: list[Json], payload: Json) -> Json:
    if len(stack) >= STACK:
        raise SlackError("push_limit_reached")
    trigger.used = True
    view = create(call.world, payload, trigger.user, stack, trigger.channel)
    call.world.set_modals(trigger.user, [*stack, view])
    return {"ok": True, "view": for_bot(view)}


@handles("views.update")
def update(call: Call) -> Json:
    payload = _read(call)
    world = call.world
    wanted_id, wanted_name = call.text("view_id"), call.text("external_id")
    if not wanted_id and not wanted_name:
        raise SlackError("invalid_arguments", "missing required field: view_id")
    views = world.workspace.views()
    view = next((v for v in views if v["id"] == wanted_id or (wanted_name and v["external_id"] == wanted_name)), None)
    if view is None:
        raise SlackError("not_found")
    if call.text("hash") and call.text("hash") != view["hash"]:
        raise SlackError("hash_conflict")
    if payload["type"] != view["type"]:
        raise SlackError("invalid_arguments", "the type of a view can't change [json-pointer:/view/type]")
    _unique_name(world, payload, view)
    replace(world, view, payload)
    return {"ok": True, "view": for_bot(view)}


@handles("views.publish")
def publish(call: Call) -> Json:
    payload = _read(call)
    world = call.world
    if payload["type"] != "home":
        raise SlackError("invalid_arguments", "must be a home view [json-pointer:/view/type]")
    user = world.workspace.users.get(call.text("user_id"))
    if user is None:
        raise SlackError("invalid_arguments", "invalid user_id [json-pointer:/user_id]")
    if not world.app.home_tab:
        raise SlackError("not_enabled")
    view = world.workspace.homes.get(user.id)
    if call.text("hash") and (view is None or call.text("hash") != view["hash"]):
        raise SlackError("hash_conflict")
    _unique_name(world, payload, view)
    if view is None:
        view = create(world, payload, user.id, [])
        world.set_home(user, view)
    else:
        replace(world, view, payload)
    return {"ok": True, "view": for_bot(view)}


def _read_modal(call: Call) -> Json:
    payload = _read(call)
    if payload["type"] != "modal":
        raise SlackError("invalid_arguments", "must be a modal view [json-pointer:/view/type]")
    _unique_name(call.world, payload, None)
    return payload


def _read(call: Call) -> Json:
    payload = call.json("view", "invalid_arguments")
    if not isinstance(payload, dict):
        raise SlackError("invalid_arguments", "must provide an object [json-pointer:/view]")
    return check(payload)


def check(payload: Json) -> Json:
    """A view as a bot sends it, refused where Slack would."""
    content.check_view(payload)
    return payload


def _trigger(call: Call) -> Trigger:
    word = call.text("trigger_id") or call.text("interactivity_pointer")
    if not word:
        raise SlackError("invalid_arguments", "missing required field: trigger_id")
    return call.grants.exchange(word)


def _unique_name(world: World, payload: Json, itself: Json | None) -> None:
    name = payload.get("external_id")
    if name and any(view["external_id"] == name and view is not itself for view in world.workspace.views()):
        raise SlackError("duplicate_external_id")


def create(world: World, payload: Json, user: str, stack: list[Json], channel: str = "") -> Json:
    """A new view, on top of this stack; `channel`: what its user was looking at when the first of them was opened."""
    view_id = world.workspace.new_id("V")
    view: Json = {"id": view_id, "team_id": world.app.team_id, "app_id": world.app.app_id, "bot_id": world.app.bot_id}
    view |= {"app_installed_team_id": world.app.team_id, "user": user}
    view |= {"root_view_id": stack[0]["id"] if stack else view_id}
    view |= {"previous_view_id": stack[-1]["id"] if stack else None}
    view |= {"current": stack[0].get("current") or channel if stack else channel}
    _fill(world, view, payload, {})
    return view


def replace(world: World, view: Json, payload: Json) -> None:
    """Put another content into a view; what people typed stays where block and action are the same."""
    _fill(world, view, payload, view["state"]["values"])
    view.pop("errors", None)
    user = world.workspace.users[view["user"]]
    if view["type"] == "home":
        world.set_home(user, view)
    else:
        world.set_modals(user.id, world.workspace.modals[user.id])


def _fill(world: World, view: Json, payload: Json, kept: Json) -> None:
    payload = copy.deepcopy(payload)
    view |= {part: payload.get(part) for part in PARTS}
    for part in ("private_metadata", "callback_id", "external_id"):
        view[part] = view[part] or ""
    for part in ("clear_on_close", "notify_on_close"):
        view[part] = bool(payload.get(part, False))
    elements.fill_ids(view["blocks"], world.fresh)
    view["hash"] = f"{world.workspace.new_ts()[:10]}.{world.fresh()}"
    values: Json = {}
    for found in elements.walk(view["blocks"]):
        state = elements.start(found.element)
        if state is None:
            continue
        if found.element.get("default_to_current_conversation") and elements.is_empty(state):
            state = elements.current(found.element, world.workspace, view.get("current") or "") or state
        block, action = found.block["block_id"], found.element["action_id"]
        before = kept.get(block, {}).get(action)
        values.setdefault(block, {})[action] = before if before and before["type"] == state["type"] else state
    view["state"] = {"values": values}


def for_bot(view: Json) -> Json:
    """A view as the bot is told of it."""
    return {key: copy.deepcopy(value) for key, value in view.items() if key not in OWN}
