"""Forms as Slack's own: where a menu of conversations begins, and a view that changed since it was seen."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from playground.tests.support import apps
from slack_playground import Playground
from slack_playground.testing.cards import Modal


def client_of(slack: Playground) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def a_form(kind: str = "conversations_select", **of_the_menu: Any) -> dict[str, Any]:
    menu = {"type": kind, "action_id": "value", "default_to_current_conversation": True, **of_the_menu}
    block = {"type": "input", "block_id": "where", "label": plain("Where"), "element": menu, "optional": True}
    return {"type": "modal", "title": plain("A form"), "submit": plain("Send"), "blocks": [block]}


async def opened(slack: Playground, channel: str, view: dict[str, Any]) -> Modal:
    """Open it with a trigger that somebody gave who looks at this conversation."""
    operator = slack.user("operator")
    trigger = slack.server.acting._payloads.trigger(operator.user, channel)  # noqa: SLF001
    await client_of(slack).views_open(trigger_id=trigger, view=view)
    modal: Modal = await operator.modal()
    return modal


async def test_a_menu_of_conversations_begins_with_the_one_that_is_looked_at(slack: Playground) -> None:
    ops = slack.channel("ops").id
    await (await opened(slack, ops, a_form())).shows("Where: [#ops]")
    several = await opened(slack, ops, a_form("multi_conversations_select"))
    assert several._view()["state"]["values"]["where"]["value"]["selected_conversations"] == [ops]  # type: ignore[index]  # noqa: SLF001
    elsewhere = slack.channel("general").id
    named = a_form(initial_conversation=elsewhere)
    await (await opened(slack, ops, named)).shows("Where: [#general]")
    await (await opened(slack, "", a_form())).shows("Where: []")


async def test_it_does_not_begin_with_what_its_filter_leaves_out(slack: Playground) -> None:
    operator = slack.user("operator")
    public = {"include": ["public"]}
    people = {"exclude_bot_users": True}
    private = slack.channel("secret", private=True, members=[operator]).id
    await (await opened(slack, private, a_form(filter=public))).shows("Where: []")
    await (await opened(slack, operator.dm().id, a_form(filter=people))).shows("Where: []")
    await (await opened(slack, slack.channel("ops").id, a_form(filter={**public, **people}))).shows("Where: [#ops]")


async def test_it_begins_so_as_well_in_a_view_that_another_turned_into(slack: Playground) -> None:
    empty = {**a_form(), "blocks": [{"type": "section", "text": plain("Wait")}]}
    modal = await opened(slack, slack.channel("ops").id, empty)
    told = await client_of(slack).views_update(view_id=modal.view_id, view=a_form())
    await modal.shows("Where: [#ops]")
    assert "current" not in told["view"]


async def test_a_view_that_changed_since_it_was_seen_is_not_changed(slack: Playground) -> None:
    modal = await opened(slack, "", a_form())
    seen = modal._view()["hash"]  # type: ignore[index]  # noqa: SLF001
    other = {**a_form(), "title": plain("Another")}
    await client_of(slack).views_update(view_id=modal.view_id, hash=seen, view=other)
    with pytest.raises(SlackApiError) as refused:
        await client_of(slack).views_update(view_id=modal.view_id, hash=seen, view=a_form())
    assert refused.value.response["error"] == "hash_conflict"
    await modal.shows("Another")


async def test_a_click_brings_what_was_typed_into_a_field_of_the_message(slack: Playground) -> None:
    app = apps.async_app(slack)
    typed = {"type": "plain_text_input", "action_id": "reason"}
    button = {"type": "button", "action_id": "send", "text": plain("Send")}
    blocks: list[dict[str, Any]] = [
        {"type": "input", "block_id": "why", "label": plain("Why?"), "element": typed},
        {"type": "actions", "elements": [button]},
    ]

    @app.action("send")
    async def send(ack: Any, body: dict[str, Any], respond: Any) -> None:
        await ack()
        await respond(text=f"because {body['state']['values']['why']['reason']['value']}", replace_original=True)

    async with apps.running(slack, app):
        operator = slack.user("operator")
        await client_of(slack).chat_postMessage(channel="#ops", text="Why?", blocks=blocks)
        card = await operator.sees("Why?")
        await card.element("reason").types("it's late")
        await card.button("Send").click()
        await card.becomes("because it's late")
