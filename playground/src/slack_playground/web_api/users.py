"""Small families of methods: auth, teams, bots, users, user groups, reactions and pins."""

from __future__ import annotations

import re

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.workspace import User

TIMESTAMP = r"\d+\.\d+"


@handles("apps.connections.open")
def connections_open(call: Call) -> Json:
    """A ticket for one connection."""
    world = call.world
    address = "ws" + world.base_url.removeprefix("http")
    return {"ok": True, "url": f"{address}/link/?ticket={call.grants.ticket()}&app_id={world.app.app_id}"}


@handles("auth.test")
def auth_test(call: Call) -> Json:
    """The identity behind the token."""
    world = call.world
    who = {"user": world.bot.name, "user_id": world.bot.id, "bot_id": world.app.bot_id}
    return {"ok": True, "url": f"{world.base_url}/"} | who | world.installation.auth_test(world.workspace.team)


@handles("team.info")
def team_info(call: Call) -> Json:
    """The workspace."""
    team = call.world.installation.team(call.world.workspace.team)
    if call.text("team") not in ("", team["id"]):
        raise SlackError("team_not_found")
    return {"ok": True, "team": team | {"email_domain": "playground.example", "icon": {"image_default": True}}}


@handles("bots.info")
def bots_info(call: Call) -> Json:
    """The bot."""
    app = call.world.app
    if call.text("bot") != app.bot_id:
        raise SlackError("bot_not_found")
    bot = {"id": app.bot_id, "deleted": False, "name": app.name, "updated": 0, "app_id": app.app_id}
    return {"ok": True, "bot": bot | {"user_id": call.world.bot.id, "icons": {}}}


def _told(call: Call, user: User) -> Json:
    return call.world.user_json(user, email=call.world.app.has_scope("users:read.email"))


@handles("users.info")
def users_info(call: Call) -> Json:
    """One user."""
    told = _told(call, call.user())
    return {"ok": True, "user": told | ({"locale": "en-US"} if call.flag("include_locale") else {})}


@handles("users.list")
def users_list(call: Call) -> Json:
    """All users."""
    page, after = call.page(list(call.world.workspace.users.values()), 1000)
    return {
        "ok": True,
        "members": [_told(call, user) for user in page],
        "cache_ts": int(call.world.clock.now()),
        "response_metadata": after,
    }


@handles("users.lookupByEmail")
def users_lookup(call: Call) -> Json:
    """The user of this address."""
    wanted = call.text("email").lower()
    for user in call.world.workspace.users.values():
        if wanted and user.email.lower() == wanted and not user.deleted:
            return {"ok": True, "user": _told(call, user)}
    raise SlackError("users_not_found")


@handles("users.profile.get")
def users_profile(call: Call) -> Json:
    """The profile of one user, else of the bot."""
    user = call.user() if call.text("user") else call.world.bot
    return {"ok": True, "profile": _told(call, user)["profile"]}


@handles("usergroups.list")
def usergroups_list(call: Call) -> Json:
    """All user groups."""
    told = []
    for group in call.world.workspace.groups.values():
        if group.disabled and not call.flag("include_disabled"):
            continue
        one: Json = {"id": group.id, "team_id": group.team_id, "is_usergroup": True, "name": group.name}
        one |= {"handle": group.handle, "description": "", "date_create": 0, "date_update": 0}
        one |= {"date_delete": int(group.disabled), "is_external": False, "auto_type": None, "deleted_by": None}
        one |= {"created_by": "USLACKBOT", "updated_by": "USLACKBOT", "prefs": {"channels": [], "groups": []}}
        if call.flag("include_users"):
            one["users"] = group.users
        if call.flag("include_count"):
            one["user_count"] = len(group.users)
        told.append(one)
    return {"ok": True, "usergroups": told}


@handles("usergroups.users.list")
def usergroups_users(call: Call) -> Json:
    """The members of a user group."""
    group = call.world.workspace.groups.get(call.text("usergroup"))
    if group is None or (group.disabled and not call.flag("include_disabled")):
        raise SlackError("no_such_subteam")
    return {"ok": True, "users": group.users}


@handles("reactions.add")
def reactions_add(call: Call) -> Json:
    """React as the bot."""
    return _react(call, remove=False)


@handles("reactions.remove")
def reactions_remove(call: Call) -> Json:
    """Take back a reaction of the bot."""
    if not call.text("timestamp") or not call.text("channel"):
        raise SlackError("no_item_specified")
    return _react(call, remove=True)


def _react(call: Call, *, remove: bool) -> Json:
    channel = call.channel()
    name = call.text("name").strip(":")
    if not re.fullmatch(r"[a-z0-9_'+-]+(::skin-tone-[2-6])?", name):
        raise SlackError("invalid_name")
    if not re.fullmatch(TIMESTAMP, call.text("timestamp")):
        raise SlackError("bad_timestamp")
    message = call.message(channel, "timestamp")
    if channel.archived:
        raise SlackError("no_access" if remove else "is_archived")
    if call.world.bot.id not in channel.members:
        raise SlackError("no_access" if remove else "not_in_channel")
    if not call.world.react(channel, message, call.world.bot, name, remove=remove):
        raise SlackError("no_reaction" if remove else "already_reacted")
    return {"ok": True}


@handles("pins.add")
def pins_add(call: Call) -> Json:
    """Pin a message."""
    channel = call.channel(member=True)
    if not call.text("timestamp"):
        raise SlackError("no_item_specified")
    if not re.fullmatch(TIMESTAMP, call.text("timestamp")):
        raise SlackError("bad_timestamp")
    message = call.message(channel, "timestamp")
    if message["ts"] in channel.pins:
        raise SlackError("already_pinned")
    call.world.set_channel(channel, pins=[*channel.pins, message["ts"]])
    call.world.change(channel, message, pinned=True, pinned_to=[channel.id])
    return {"ok": True}
