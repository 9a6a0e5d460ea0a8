"""An assistant on Slack's SDK: threads, their context, status, title and prompts, and a message that grows."""

from __future__ import annotations

from typing import Any

import pytest
from slack_bolt import Assistant
from slack_bolt.async_app import AsyncApp, AsyncAssistant
from slack_sdk.web.async_client import AsyncWebClient

from playground.tests.bots.test_bolt_sync import app_of
from playground.tests.support.apps import running, running_sync, until
from playground.tests.test_web_api import client_of, error_of
from slack_playground import Playground
from slack_playground.values import PlaygroundError


def librarian() -> Assistant:
    """An assistant that greets, and says what it was asked and where from."""
    assistant = Assistant()

    @assistant.thread_started
    def started(say, set_suggested_prompts):
        say("Which *book*?")
        set_suggested_prompts(title="Try", prompts=[{"title": "The newest", "message": "Show the newest book"}])

    @assistant.user_message
    def asked(payload, say, set_title, set_status, get_thread_context):
        set_title(payload["text"])
        set_status("is reading…")
        say(f"You asked for {payload['text']} in <#{get_thread_context()['channel_id']}>")

    return assistant


def root_of(slack: Any) -> dict[str, Any]:
    ann = slack.user("ann")
    [root] = [m for m in ann.dm().messages() if m.get("subtype") == "assistant_app_thread"]
    return dict(root)


def test_an_assistant_answers_in_its_thread(slack: Any):
    app = app_of(slack)
    app.use(librarian())
    with running_sync(slack, app):
        ann = slack.user("ann")
        thread = ann.opens_assistant(in_="ops")
        thread.thread_shows("Which book?")
        until(lambda: root_of(slack)["assistant"].get("prompts"))
        assert root_of(slack)["assistant"]["prompts_title"] == "Try"
        ann.says("Dune", thread=thread)
        thread.thread_shows("You asked for Dune in #ops")
        thread.shows("Dune")
        assert root_of(slack)["assistant_app_thread"]["title"] == "Dune"
        assert root_of(slack)["assistant"]["status"] == "", "an answer takes the status away"


def test_the_context_changes_with_what_the_user_looks_at(slack: Any):
    app = app_of(slack)
    app.use(librarian())
    with running_sync(slack, app):
        ann = slack.user("ann")
        thread = ann.opens_assistant(in_="ops")
        thread.thread_shows("Which book?")
        ann.looks_at("general", beside=thread)
        until(lambda: slack.calls("chat.update"))
        ann.says("Emma", thread=thread)
        thread.thread_shows("You asked for Emma in #general")
        thread.thread_shows("Which book?")  # kept as the rich text that Slack made of it


async def test_an_async_assistant_hears_what_it_posted_itself(slack: Playground):
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
    app = AsyncApp(client=client, ignoring_self_assistant_message_events_enabled=False)
    assistant = AsyncAssistant()

    @assistant.thread_started
    async def started(say):
        await say("hello")  # it keeps the context of the thread
        await say(text="working", metadata={"event_type": "job", "event_payload": {"n": 3}})

    @assistant.bot_message
    async def worked(payload, say):
        if "metadata" in payload:
            await say(f"did {payload['metadata']['event_payload']['n']}")

    app.use(assistant)
    async with running(slack, app):
        thread = await slack.user("ann").opens_assistant()
        await thread.thread_shows("did 3")


async def test_arguments_of_assistant_methods_are_judged(slack: Playground):
    client, ann = client_of(slack), slack.user("ann")
    root = slack.server.people.assistant(ann.user)
    place = {"channel_id": root["channel"], "thread_ts": root["ts"]}
    prompt = {"title": "a", "message": "b"}
    assert await error_of(client.assistant_threads_setStatus(channel_id="C0", thread_ts="1.1", status="x")) == (
        "channel_not_found"
    )
    wrong = client.assistant_threads_setStatus(channel_id=root["channel"], thread_ts="1.1", status="x")
    assert await error_of(wrong) == "invalid_thread_ts"
    assert await error_of(client.assistant_threads_setSuggestedPrompts(**place, prompts=[prompt] * 5)) == (
        "invalid_arguments"
    )
    assert await error_of(client.assistant_threads_setSuggestedPrompts(**place, prompts=[{"title": "a"}])) == (
        "invalid_arguments"
    )
    await client.assistant_threads_setSuggestedPrompts(channel_id=root["channel"], prompts=[prompt])
    assert ann.dm().messages()[0]["assistant"]["prompts"] == [prompt]
    await client.assistant_threads_setStatus(**place, status="thinks", loading_messages=["a", "b"])
    answer = await client.conversations_replies(channel=root["channel"], ts=root["ts"])
    assert "assistant" not in answer["messages"][0]


@pytest.mark.playground(manifest={"display_information": {"name": "plain"}})
async def test_an_app_without_an_assistant_has_no_threads_of_one(slack: Playground):
    with pytest.raises(PlaygroundError, match="no assistant"):
        await slack.user("ann").opens_assistant()


async def test_a_message_grows_while_it_is_written(slack: Playground):
    client = client_of(slack)
    parent = await client.chat_postMessage(channel="#ops", text="go")
    place = {"channel": parent["channel"], "thread_ts": parent["ts"]}
    assert await error_of(client.chat_startStream(**place)) == "missing_recipient_user_id"
    whom = {"recipient_user_id": slack.user("ann").id, "recipient_team_id": "T0PLAYGROUND"}
    stream = await client.chat_stream(**place, **whom, buffer_size=4)
    await stream.append(markdown_text="**hello** ")
    card = await slack.channel("ops").shows("**hello**")
    await stream.append(chunks=[{"type": "task_update", "id": "1", "title": "Look", "status": "in_progress"}])
    await stream.append(chunks=[{"type": "task_update", "id": "1", "title": "Look", "status": "complete"}])
    await stream.append(markdown_text="world")
    await stream.stop(blocks=[{"type": "divider"}], metadata={"event_type": "done", "event_payload": {"n": 1}})
    message = await card.message()
    assert [block["type"] for block in message["blocks"]] == ["markdown", "task_card", "markdown", "divider"]
    assert message["blocks"][1]["status"] == "complete"
    assert message["metadata"]["event_type"] == "done"
    place = {"channel": message["channel"], "ts": message["ts"]}
    late = client.chat_appendStream(**place, markdown_text="x")
    assert await error_of(late) == "message_not_in_streaming_state"


async def test_a_plan_holds_its_tasks(slack: Playground):
    client, ann = client_of(slack), slack.user("ann")
    root = slack.server.people.assistant(ann.user)
    place = {"channel": root["channel"], "thread_ts": root["ts"]}
    task = {"type": "task_update", "id": "1", "title": "Look", "details": "closely", "output": "found"}
    started = await client.chat_startStream(**place, task_display_mode="plan", chunks=[task])
    done = {"channel": root["channel"], "ts": started["ts"]}
    assert await error_of(client.chat_appendStream(**done, chunks=[{"type": "song"}])) == "invalid_chunks"
    assert await error_of(client.chat_appendStream(**done, chunks=[])) == "no_text"
    await client.chat_appendStream(**done, chunks=[{"type": "plan_update", "title": "The plan"}])
    told = await client.chat_stopStream(**done, markdown_text="Done.")
    plan, text = told["message"]["blocks"]
    assert (plan["title"], [each["title"] for each in plan["tasks"]]) == ("The plan", ["Look"])
    assert text["text"] == "Done."
    assert "streaming" not in told["message"]
