"""Slack's SDK unmodified, sync with the built-in client, tested without await."""

from __future__ import annotations

from typing import Any

import pytest
from slack_bolt import App
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from playground.tests.support import apps


def app_of(slack: Any, **options: Any) -> App:
    return App(client=WebClient(token=slack.bot_token, base_url=slack.api_url, **options))


def test_a_plain_app_of_ten_lines_works(slack: Any):
    app = app_of(slack)

    @app.command("/hello")
    def hello(ack, say, command):
        ack()
        say(f"Hello <@{command['user_id']}>!")

    with apps.running_sync(slack, app):
        card = slack.user("operator").slash("/hello")
        card.shows("Hello @operator!")
        slack.channel("ops").shows(1, "message")


def test_clicks_and_modals_work_without_await(slack: Any):
    app = app_of(slack)

    @app.command("/deploy")
    def deploy(ack, say):
        ack()
        say(text="Deploy?", blocks=apps.BUTTONS)

    @app.action("approve")
    def approve(ack, body, client):
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=apps.modal("Why?"))

    @app.view("form")
    def submitted(ack, client, view):
        ack()
        client.chat_postMessage(channel="#ops", text="because " + view["state"]["values"]["label"]["text"]["value"])

    with apps.running_sync(slack, app):
        operator = slack.user("operator")
        operator.slash("/deploy web").button("Approve").click()
        modal = operator.modal("Why?")
        modal.fill("Label", "it works")
        modal.submit()
        modal.is_closed()
        slack.channel("ops").shows("because it works")


def test_a_rate_limit_is_waited_out_by_slacks_own_retry_handler(slack: Any):
    slack.fault("ratelimited", "chat.postMessage", retry_after=1)
    client = WebClient(token=slack.bot_token, base_url=slack.api_url)
    with pytest.raises(SlackApiError, match="ratelimited"):
        client.chat_postMessage(channel="#ops", text="too soon")
    slack.fault("ratelimited", "chat.postMessage", retry_after=1)
    client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=1))
    client.chat_postMessage(channel="#ops", text="later")
    slack.channel("ops").shows(1, "later")
    assert [call["status"] for call in slack.calls("chat.postMessage")] == [429, 429, 200]


@pytest.mark.playground(rate_limits=True)
def test_a_channel_takes_a_short_burst_and_then_one_post_a_second(slack: Any):
    client = WebClient(token=slack.bot_token, base_url=slack.api_url)
    for number in range(3):
        client.chat_postMessage(channel="#ops", text=str(number))
    with pytest.raises(SlackApiError, match="ratelimited") as refused:
        client.chat_postMessage(channel="#ops", text="one more")
    assert int(refused.value.response.headers["Retry-After"]) >= 1
    client.chat_postMessage(channel="#general", text="another channel")
    slack.advance(2)
    client.chat_postMessage(channel="#ops", text="now")


def test_slacks_default_retry_posts_twice_when_the_line_breaks_after_the_effect(slack: Any):
    slack.fault("drop_after", "chat.postMessage")
    WebClient(token=slack.bot_token, base_url=slack.api_url).chat_postMessage(channel="#ops", text="once?")
    slack.channel("ops").shows(2, "once?")


def test_what_a_sync_app_did_not_hear_while_its_line_was_broken_comes_again(slack: Any):
    app = app_of(slack)
    heard: list[int] = []

    @app.event("app_mention")
    def mentioned(request):
        heard.append(int(request.headers.get("x-slack-retry-num", ["0"])[0]))

    @app.event("message")
    def message():
        pass

    slack.user("operator").says("@bot hello")
    with apps.running_sync(slack, app):
        slack.eventually(lambda: heard, "nothing was heard")
    assert heard == [1]
