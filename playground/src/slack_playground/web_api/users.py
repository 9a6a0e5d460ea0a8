"""Small families of methods: auth, teams, bots, users and user groups."""

from __future__ import annotations

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.workspace import User


@handles("apps.connections.open")
def connections_open(call: Call) -> Json:
    world = call.world
    address = "ws" + world.base_url.removeprefix("http")
    return {"ok": True, "url": f"{address}/link/?ticket={call.grants.ticket()}&app_id={world.app.app_id}"}


@handles("api.test")
def api_test(call: Call) -> Json:
    """The arguments as they arrived; `error` is answered as an error."""
    args = {"args": call.arguments} if call.arguments else {}
    if call.text("error"):
        raise SlackError(call.text("error"), **args)
    return {"ok": True} | args


@handles("auth.test")
def auth_test(call: Call) -> Json:
    world = call.world
    team = world.workspace.team
    told = {"team": team["name"], "team_id": team["id"], "is_enterprise_install": False}
    who = {"user": world.bot.name, "user_id": world.bot.id, "bot_id": world.app.bot_id}
    return {"ok": True, "url": f"{world.base_url}/"} | told | who


@handles("team.info")
def team_info(call: Call) -> Json:
    team = call.world.workspace.team
    if call.text("team") not in ("", team["id"]):
        raise SlackError("team_not_found")
    return {"ok": True, "team": team | {"email_domain": "playground.example", "icon": {"image_default": True}}}


@handles("bots.info")
def bots_info(call: Call) -> Json:
    app = call.world.app
    if call.text("bot") != app.bot_id:
        raise SlackError("bot_not_found")
    bot = {"id": app.bot_id, "deleted": False, "name": app.name, "updated": 0, "app_id": app.app_id}
    return {"ok": True, "bot": bot | {"user_id": call.world.bot.id, "icons": {}}}


def _told(call: Call, user: User) -> Json:
    return user.to_slack(email=call.world.app.has_scope("users:read.email"))


@handles("users.info")
def users_info(call: Call) -> Json:
    told = _told(call, call.user())
    return {"ok": True, "user": told | ({"locale": "en-US"} if call.flag("include_locale") else {})}


@handles("users.list")
def users_list(call: Call) -> Json:
    page, after = call.page(list(call.world.workspace.users.values()), 1000)
    return {
        "ok": True,
        "members": [_told(call, user) for user in page],
        "cache_ts": int(call.world.clock.now()),
        "response_metadata": after,
    }


@handles("users.lookupByEmail")
def users_lookup(call: Call) -> Json:
    wanted = call.text("email").lower()
    for user in call.world.workspace.users.values():
        if wanted and user.email.lower() == wanted and not user.deleted:
            return {"ok": True, "user": _told(call, user)}
    raise SlackError("users_not_found")


@handles("usergroups.list")
def usergroups_list(call: Call) -> Json:
    told = []
    for group in call.world.workspace.groups.values():
        one: Json = {"id": group.id, "team_id": group.team_id, "is_usergroup": True, "name": group.name}
        one |= {"handle": group.handle, "description": "", "date_create": 0, "date_update": 0}
        one |= {"date_delete": 0, "is_external": False}
        if call.flag("include_users"):
            one["users"] = group.users
        if call.flag("include_count"):
            one["user_count"] = len(group.users)
        told.append(one)
    return {"ok": True, "usergroups": told}


@handles("usergroups.users.list")
def usergroups_users(call: Call) -> Json:
    group = call.world.workspace.groups.get(call.text("usergroup"))
    if group is None:
        raise SlackError("no_such_subteam")
    return {"ok": True, "users": group.users}
