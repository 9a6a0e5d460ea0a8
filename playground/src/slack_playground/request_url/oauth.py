"""OAuth: the page where a person allows an app, and oauth.v2.access, which turns the code of that page into a token."""

from __future__ import annotations

import html
from urllib.parse import urlencode, urlsplit

from aiohttp import web

from slack_playground.request_url.delivery import Delivery
from slack_playground.values import LOCAL, Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import handles
from slack_playground.world.grants import Grants
from slack_playground.world.world import World

USUAL = "http://127.0.0.1:3000"
REDIRECT_PATH = "/slack/oauth_redirect"
CSP = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Allow {app}</title>
<style>:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 28rem; margin: 15vh auto 0; padding: 0 1rem; }}
a {{ display: inline-block; padding: .4rem 1rem; border: 1px solid; border-radius: 8px; margin-right: .5rem; }}</style>
<h1>{app} wants to access {team}</h1><p>It asks for:</p><ul>{scopes}</ul>
<p><a href="{allow}">Allow</a><a href="{cancel}">Cancel</a></p></html>
"""


class OAuthHttp:
    """The page at `/oauth/v2/authorize`."""

    def __init__(self, world: World, grants: Grants, delivery: Delivery) -> None:
        self._world, self._grants, self._delivery = world, grants, delivery

    async def authorize(self, request: web.Request) -> web.StreamResponse:
        """Ask whether the app may be installed, and lead back to it."""
        asked, world = request.query, self._world
        if asked.get("client_id") != world.client_id:
            raise web.HTTPBadRequest(text="invalid_client_id")
        back = asked.get("redirect_uri") or self._usual()
        target = urlsplit(back)
        if target.scheme not in ("http", "https") or target.hostname not in LOCAL:
            raise web.HTTPBadRequest(text="bad_redirect_uri: it must be on this machine")
        scopes = [scope for scope in asked.get("scope", "").replace(" ", ",").split(",") if scope]
        code = self._grants.code(asked.get("redirect_uri", ""), ",".join(scopes))
        state = {"state": asked["state"]} if "state" in asked else {}
        start = f"{back}{'&' if target.query else '?'}"
        words = {
            "app": world.app.name,
            "team": world.workspace.team["name"],
            "allow": f"{start}{urlencode({'code': code, **state})}",
            "cancel": f"{start}{urlencode({'error': 'access_denied', **state})}",
        }
        shown = {name: html.escape(value) for name, value in words.items()}
        items = "".join(f"<li>{html.escape(scope)}</li>" for scope in scopes)
        page = PAGE.format(**shown, scopes=items or "<li>nothing</li>")
        return web.Response(text=page, content_type="text/html", headers={"Content-Security-Policy": CSP})

    def _usual(self) -> str:
        """The address that Bolt listens at, beside the request URL."""
        parts = urlsplit(self._delivery.request_url or USUAL)
        return f"{parts.scheme}://{parts.netloc}{REDIRECT_PATH}"


@handles("oauth.v2.access")
def access(call: Call) -> Json:
    """The bot's token for the code that the person's browser brought."""
    world = call.world
    if call.text("client_id") != world.client_id:
        raise SlackError("invalid_client_id")
    if call.text("client_secret") != world.client_secret:
        raise SlackError("bad_client_secret")
    if call.text("grant_type") not in ("", "authorization_code"):
        raise SlackError("invalid_grant_type")
    grant = call.grants.redeem_code(call.text("code"))
    if grant is None:
        raise SlackError("invalid_code")
    if call.text("redirect_uri") != grant.redirect_uri:
        raise SlackError("bad_redirect_uri")
    person = next((user for user in world.workspace.users.values() if not user.is_bot), world.bot)
    return {
        "ok": True,
        "access_token": world.bot_token,
        "token_type": "bot",
        "scope": grant.scope,
        "bot_user_id": world.bot.id,
        "app_id": world.app.app_id,
        "authed_user": {"id": person.id},
        **world.installation.installed(world.workspace.team),
    }
