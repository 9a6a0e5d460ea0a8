"""An app is installed with OAuth: the page where a person allows it, the code, and the token for it."""

from __future__ import annotations

import html
import re
from typing import Any

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from playground.tests.test_web_api import error_of
from slack_playground import Playground

pytestmark = pytest.mark.filterwarnings("ignore:BasicAuth is deprecated")  # Slack's SDK uses it

BACK = "http://127.0.0.1:3000/slack/oauth_redirect"


async def allow(slack: Playground, **more: str) -> str:
    """The address that the button leads back to."""
    asked = {"client_id": slack.server.world.client_id, "scope": "chat:write,commands", "state": "a&b"} | more
    async with aiohttp.ClientSession() as session, session.get(slack.authorize_url, params=asked) as answer:
        page = await answer.text()
    assert answer.status == 200, page
    assert "<li>commands</li>" in page
    found = re.search(r'href="([^"]+)">Allow', page)
    assert found
    return html.unescape(found.group(1))


def access(slack: Playground, code: str, **more: str) -> Any:
    client = AsyncWebClient(base_url=slack.api_url)
    given = {"client_id": slack.server.world.client_id, "client_secret": slack.server.world.client_secret, **more}
    return client.oauth_v2_access(code=code, **given)


async def test_a_code_becomes_the_bots_token_once(slack: Playground):
    ann = slack.user("ann")
    address = await allow(slack, redirect_uri=BACK)
    assert address.startswith(f"{BACK}?code=")
    assert address.endswith("&state=a%26b")
    code = address.partition("code=")[2].partition("&")[0]
    told = await access(slack, code, redirect_uri=BACK)
    assert (told["access_token"], told["token_type"], told["scope"]) == (slack.bot_token, "bot", "chat:write,commands")
    assert (told["team"]["id"], told["enterprise"], told["authed_user"]["id"]) == ("T0PLAYGROUND", None, ann.id)
    assert await error_of(access(slack, code, redirect_uri=BACK)) == "invalid_code"


@pytest.mark.playground(enterprise="organization", request_url=BACK.replace("oauth_redirect", "events"))
async def test_an_organization_wide_app_has_no_team(slack: Playground):
    slack.user("ann")
    address = await allow(slack)
    assert address.startswith(f"{BACK}?code="), "Bolt listens beside the request URL"
    told = await access(slack, address.partition("code=")[2].partition("&")[0])
    assert (told["team"], told["enterprise"]["id"], told["is_enterprise_install"]) == (None, "E0PLAYGROUND", True)


async def test_wrong_requests_are_refused(slack: Playground):
    slack.user("ann")
    code = (await allow(slack, redirect_uri=BACK)).partition("code=")[2].partition("&")[0]
    assert await error_of(access(slack, code, client_id="1")) == "invalid_client_id"
    assert await error_of(access(slack, code, client_secret="1")) == "bad_client_secret"
    assert await error_of(access(slack, code, grant_type="refresh_token")) == "invalid_grant_type"
    assert await error_of(access(slack, code, redirect_uri="http://127.0.0.1/x")) == "bad_redirect_uri"
    late = (await allow(slack, redirect_uri=BACK)).partition("code=")[2].partition("&")[0]
    slack.advance(601)
    assert await error_of(access(slack, late, redirect_uri=BACK)) == "invalid_code"
    async with aiohttp.ClientSession() as session:
        for wrong in ({"client_id": "1"}, {"redirect_uri": "https://example.com/"}):
            asked = {"client_id": slack.server.world.client_id} | wrong
            async with session.get(slack.authorize_url, params=asked) as answer:
                assert answer.status == 400
        headers = {"Authorization": "Basic ???"}
        async with session.post(f"{slack.api_url}oauth.v2.access", headers=headers) as answer:
            assert (await answer.json())["error"] == "invalid_client_id"
    assert "SLACK_BOT_TOKEN" not in slack.oauth_environment


async def test_a_query_in_the_redirect_uri_is_kept(slack: Playground):
    address = await allow(slack, redirect_uri=f"{BACK}?tenant=1")
    assert address.startswith(f"{BACK}?tenant=1&code=")


async def test_only_a_page_may_be_led_back_to(slack: Playground):
    asked = {"client_id": slack.server.world.client_id, "redirect_uri": "javascript://127.0.0.1/%0Aalert(1)"}
    async with aiohttp.ClientSession() as session, session.get(slack.authorize_url, params=asked) as answer:
        assert answer.status == 400


async def test_without_people_the_bot_stands_for_who_allowed_it(slack: Playground):
    address = await allow(slack, redirect_uri=BACK)
    code = address.partition("code=")[2].partition("&")[0]
    assert (await access(slack, code, redirect_uri=BACK))["authed_user"] == {"id": slack.server.world.bot.id}
