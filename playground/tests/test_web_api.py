"""The Web API answers as Slack does: tokens, scopes, arguments, membership, archives, lifetimes and limits."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from slack_playground import Playground

NARROW = {
    "display_information": {"name": "narrow"},
    "features": {"slash_commands": [{"command": "/deploy"}]},
    "oauth_config": {"scopes": {"bot": ["commands", "chat:write", "users:read"]}},
}


def client_of(slack: Playground, token: str = "") -> AsyncWebClient:
    return AsyncWebClient(token=token or slack.bot_token, base_url=slack.api_url)


async def error_of(call: Any) -> str:
    with pytest.raises(SlackApiError) as refused:
        await call
    return str(refused.value.response["error"])


async def test_tokens_are_judged(slack: Playground):
    assert await error_of(client_of(slack, "xoxb-other").auth_test()) == "invalid_auth"
    assert await error_of(client_of(slack, slack.app_token).users_list()) == "not_allowed_token_type"
    assert await error_of(client_of(slack).apps_connections_open(app_token=slack.bot_token)) == "not_allowed_token_type"
    async with aiohttp.ClientSession() as session, session.post(slack.api_url + "auth.test") as answer:
        assert await answer.json() == {"ok": False, "error": "not_authed"}
    slack.revoke_token()
    assert await error_of(client_of(slack).auth_test()) == "token_revoked"
    slack.revoke_token(revoked=False)
    told = await client_of(slack).auth_test()
    assert told["user_id"] == slack.server.world.bot.id


async def test_answers_tell_the_time_of_the_playgrounds_clock(slack: Playground):
    slack.advance(3600)
    answer = await client_of(slack).auth_test()
    told = parsedate_to_datetime(answer.headers["Date"]).timestamp()
    assert told == pytest.approx(slack.server.world.clock.now(), abs=60)


@pytest.mark.playground(manifest=NARROW)
async def test_scopes_come_from_the_manifest(slack: Playground):
    client = client_of(slack)
    with pytest.raises(SlackApiError) as refused:
        await client.reactions_add(channel=slack.channel("ops").id, name="eyes", timestamp="1.1")
    assert refused.value.response["error"] == "missing_scope"
    assert refused.value.response["needed"] == "reactions:write"
    someone = slack.user("operator")
    told = (await client.users_info(user=someone.id))["user"]
    assert "email" not in told["profile"]


async def test_arguments_are_judged(slack: Playground):
    client = client_of(slack)
    assert await error_of(client.api_call("conversations.info")) == "invalid_arguments"
    assert await error_of(client.conversations_info(channel="")) == "channel_not_found"
    with pytest.raises(SlackApiError, match="thread_id") as refused:
        await client.chat_postMessage(channel="#ops", text="x", thread_id="1")
    assert refused.value.response["error"] == "invalid_arguments"
    assert await error_of(client.api_call("no.such")) == "unknown_method"
    assert await error_of(client.chat_postMessage(channel="#nowhere", text="x")) == "channel_not_found"
    assert await error_of(client.api_call("chat.postMessage", json={"channel": "#ops"})) == "no_text"
    assert await error_of(client.conversations_list(types="secret")) == "invalid_types"
    assert await error_of(client.users_list(cursor="?")) == "invalid_cursor"


async def test_forms_and_json_say_the_same(slack: Playground):
    headers = {"Authorization": f"Bearer {slack.bot_token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        url = slack.api_url + "chat.postMessage"
        async with session.post(url, json={"channel": "#ops", "text": "as JSON"}) as answer:
            assert (await answer.json())["ok"]
        blocks = '[{"type": "section", "text": {"type": "mrkdwn", "text": "as a form"}}]'
        async with session.post(url, data={"channel": "#ops", "blocks": blocks}) as answer:
            assert (await answer.json())["ok"]
        # What only reads takes no JSON body.
        async with session.post(slack.api_url + "users.info", json={"user": slack.server.world.bot.id}) as answer:
            assert (await answer.json())["error"] == "invalid_arguments"
    await slack.channel("ops").shows("as JSON")
    await slack.channel("ops").shows("as a form")


async def test_membership_and_archives_are_judged(slack: Playground):
    client = client_of(slack)
    private = slack.channel("cellar", private=True, members=[slack.user("operator")])
    assert await error_of(client.chat_postMessage(channel=private.id, text="x")) == "channel_not_found"
    private.invite()
    await client.chat_postMessage(channel=private.id, text="x")
    private.without_bot()
    assert await error_of(client.conversations_history(channel=private.id)) == "channel_not_found"
    outside = slack.channel("outside").without_bot()
    assert await error_of(client.conversations_history(channel=outside.id)) == "not_in_channel"
    await client.conversations_join(channel=outside.id)
    await client.conversations_history(channel=outside.id)
    slack.channel("old").archive()
    assert await error_of(client.chat_postMessage(channel="#old", text="x")) == "is_archived"
    stranger = slack.user("stranger", is_restricted=True)
    ops = slack.channel("ops").id
    assert await error_of(client.chat_postEphemeral(channel=ops, user=stranger.id, text="x")) == "user_not_in_channel"


async def test_blocks_are_checked_with_the_place_named(slack: Playground):
    client = client_of(slack)
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel="#ops", text="x", blocks=blocks)
    assert refused.value.response["error"] == "invalid_blocks"
    assert "/blocks/0/text" in refused.value.response["response_metadata"]["messages"][0]
    view = {"type": "home", "blocks": [{"type": "nonsense"}]}
    user = slack.user("operator")
    assert await error_of(client.views_publish(user_id=user.id, view=view)) == "invalid_arguments"


async def test_an_update_with_a_text_alone_takes_the_blocks_away(slack: Playground):
    client = client_of(slack)
    divider: list[dict[str, Any]] = [
        {"type": "divider"},
        {"type": "header", "text": {"type": "plain_text", "text": "Head"}},
    ]
    posted = await client.chat_postMessage(channel="#ops", text="a", blocks=divider)
    place = {"channel": posted["channel"], "ts": posted["ts"]}
    changed = await client.api_call("chat.update", json={**place, "blocks": [divider[0]]})
    assert [block["type"] for block in changed["message"]["blocks"]] == ["divider"]
    changed = await client.chat_update(**place, text="done")
    assert "blocks" not in changed["message"]
    assert await error_of(client.chat_update(**place, text="x" * 4001)) == "msg_too_long"
    theirs = await slack.user("operator").says("mine")
    assert (
        await error_of(client.chat_update(channel=place["channel"], ts=theirs.said, text="x")) == "cant_update_message"
    )
    assert await error_of(client.chat_delete(channel=place["channel"], ts=theirs.said)) == "cant_delete_message"
    await client.chat_delete(**place)
    assert await error_of(client.chat_update(**place, text="x")) == "message_not_found"


async def test_threads_history_and_replies(slack: Playground):
    client = client_of(slack)
    parent = await client.chat_postMessage(channel="#ops", text="parent")
    reply = await client.chat_postMessage(channel="#ops", text="reply", thread_ts=parent["ts"])
    await client.chat_postMessage(channel="#ops", text="deeper", thread_ts=reply["ts"])
    history = await client.conversations_history(channel=parent["channel"])
    assert [message["text"] for message in history["messages"]] == ["parent"]
    assert history["messages"][0]["reply_count"] == 2
    replies = await client.conversations_replies(channel=parent["channel"], ts=parent["ts"])
    assert [message["text"] for message in replies["messages"]] == ["parent", "reply", "deeper"]
    assert await error_of(client.conversations_replies(channel=parent["channel"], ts="1.000001")) == "thread_not_found"


async def test_a_response_url_is_good_five_times_and_half_an_hour(slack: Playground):
    url = slack.server.world.base_url
    operator = slack.user("operator")
    address = slack.server.grants.response_url("commands", slack.channel("ops").id, operator.id)
    assert address.startswith(url)
    webhook = AsyncWebhookClient(address)
    for number in range(5):
        assert (await webhook.send(text=f"answer {number}")).status_code == 200
    refused = await webhook.send(text="one more")
    assert (refused.status_code, "used_url" in refused.body) == (404, True)
    late = AsyncWebhookClient(slack.server.grants.response_url("commands", slack.channel("ops").id, operator.id))
    slack.advance(1801)
    assert "expired_url" in (await late.send(text="late")).body


async def test_a_trigger_is_good_for_three_seconds(slack: Playground):
    client = client_of(slack)
    view = {"type": "modal", "title": {"type": "plain_text", "text": "T"}, "blocks": [{"type": "divider"}]}
    trigger = slack.server.grants.trigger(slack.user("operator").id)
    slack.advance(3.1)
    assert await error_of(client.views_open(trigger_id=trigger, view=view)) == "expired_trigger_id"
    assert await error_of(client.views_open(trigger_id="1.2.3", view=view)) == "invalid_trigger_id"
    trigger = slack.server.grants.trigger(slack.user("operator").id)
    opened = await client.views_open(trigger_id=trigger, view=view)
    stale = "0.old"
    assert await error_of(client.views_update(view_id=opened["view"]["id"], view=view, hash=stale)) == "hash_conflict"


async def test_user_groups_are_told_with_their_members(slack: Playground):
    group = slack.group("oncall", slack.user("operator"))
    client = client_of(slack)
    assert (await client.usergroups_users_list(usergroup=group))["users"] == [slack.user("operator").id]
    assert await error_of(client.usergroups_users_list(usergroup="S0NONE")) == "no_such_subteam"
    assert (await client.usergroups_list(include_users=True))["usergroups"][0]["handle"] == "oncall"


async def test_reactions_and_pins_are_not_added_twice(slack: Playground):
    client = client_of(slack)
    posted = await client.chat_postMessage(channel="#ops", text="a")
    place = {"channel": posted["channel"], "timestamp": posted["ts"]}
    await client.reactions_add(name="eyes", **place)
    assert await error_of(client.reactions_add(name="eyes", **place)) == "already_reacted"
    await client.pins_add(**place)
    assert await error_of(client.pins_add(**place)) == "already_pinned"


@pytest.mark.parametrize(("kind", "posted"), [("drop_before", 0), ("drop_after", 1)])
async def test_a_connection_can_be_dropped_before_and_after_the_effect(slack: Playground, kind: str, posted: int):
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    slack.fault(kind, "chat.postMessage", after=1)
    await client.chat_postMessage(channel="#general", text="this one passes")
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel="#ops", text="a")
    await slack.channel("ops").shows(posted, "messages")


async def test_other_faults_strike_as_asked(slack: Playground):
    client = client_of(slack)
    slack.fault("status", "chat.*", status=503)
    with pytest.raises((SlackRequestError, SlackApiError)):
        await client.chat_postMessage(channel="#ops", text="a")
    slack.fault("garbage", "auth.test")
    with pytest.raises((SlackRequestError, SlackApiError)):
        await client.auth_test()
    slack.fault("error", error="internal_error")
    assert await error_of(client.auth_test()) == "internal_error"
    await client.auth_test()


async def test_limits_of_pages_and_shares(slack: Playground):
    client = client_of(slack)
    ops = slack.channel("ops")
    posted = await client.chat_postMessage(channel=ops.id, text="x")
    assert await error_of(client.pins_add(channel=ops.id, timestamp="yesterday")) == "bad_timestamp"
    for _ in range(1000):
        slack.server.world.post(ops.channel, {"user": posted["message"]["user"], "text": "x"})
    assert len((await client.conversations_history(channel=ops.id, limit=1000))["messages"]) == 999
    channels = ["C0"] * 101
    file = (await client.files_getUploadURLExternal(filename="a.txt", length=1))["file_id"]
    slack.server.world.workspace.files[file].content = b"a"
    shared = client.files_completeUploadExternal(files=[{"id": file}], channels=channels)
    assert await error_of(shared) == "channels_limit_exceeded"


async def test_an_answer_is_changed_as_asked(slack: Playground):
    slack.fault("answer", "auth.test", fields={"is_enterprise_install": True})
    assert (await client_of(slack).auth_test())["is_enterprise_install"] is True
    told = await client_of(slack).auth_test()
    assert (told["is_enterprise_install"], told["user_id"]) == (False, slack.server.world.bot.id)


async def test_a_mistake_in_a_view_is_pointed_at_from_the_argument(slack: Playground):
    view = {"type": "home", "blocks": [{"type": "section"}]}
    with pytest.raises(SlackApiError) as refused:
        await client_of(slack).views_publish(user_id=slack.user("operator").id, view=view)
    assert refused.value.response["error"] == "invalid_arguments"
    assert "[json-pointer:/view/blocks/0]" in refused.value.response["response_metadata"]["messages"][0]
