"""A thread with the assistant beside a channel, a streamed message, a pin and the warnings, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from slack_bolt import App
from slack_sdk import WebClient

from playground.tests.bots.test_assistant import librarian
from playground.tests.support.apps import running_sync, until
from playground.tests.support.browser import olgas_page, row
from slack_playground import Playground

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("chromium")


@pytest.fixture
def slack() -> Iterator[Any]:
    with Playground.in_thread() as playground:
        playground.user("olga")
        app = App(client=client_of(playground))
        app.use(librarian())
        with running_sync(playground, app):
            yield playground


@pytest.fixture
def page(browser: Browser, slack: Any) -> Iterator[Page]:
    with olgas_page(browser, slack) as opened:
        yield opened


def client_of(slack: Any) -> WebClient:
    return WebClient(token=slack.bot_token, base_url=slack.api_url)


def test_an_assistant_is_asked_by_a_prompt_and_about_another_channel(page: Page, slack: Any) -> None:
    page.locator("button.place").filter(has_text="app").last.click()
    page.get_by_role("button", name="New chat").click()
    thread = page.get_by_role("complementary", name="Thread")
    thread.get_by_text("Which book?").wait_for()
    thread.get_by_role("group", name="Try").get_by_role("button", name="The newest").click()
    thread.get_by_text("You asked for Show the newest book in #general").wait_for()
    thread.get_by_role("heading", name="Show the newest book").wait_for()
    assert thread.get_by_role("group", name="Try").count() == 0, "prompts are for the first question"
    page.locator("button.place").filter(has_text="ops").click()
    page.get_by_role("heading", name="#ops").wait_for()
    until(lambda: slack.calls("chat.update"))
    field = thread.get_by_role("textbox")
    field.fill("Emma")
    field.press("Enter")
    thread.get_by_text("You asked for Emma in #ops").wait_for()


def test_on_a_phone_the_thread_gives_way_to_the_channel(page: Page, slack: Any) -> None:
    page.locator("button.place").filter(has_text="app").last.click()
    page.get_by_role("button", name="New chat").click()
    thread = page.get_by_role("complementary", name="Thread")
    thread.get_by_text("Which book?").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    # The thread covers the page, so its reader leaves by the menu.
    page.get_by_role("button", name="Channels and people").click()
    page.locator("button.place").filter(has_text="ops").click()
    page.get_by_role("heading", name="#ops").wait_for()
    assert thread.count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_status_is_shown_until_the_answer_comes(page: Page, slack: Any) -> None:
    page.locator("button.place").filter(has_text="app").last.click()
    page.get_by_role("button", name="New chat").click()
    thread = page.get_by_role("complementary", name="Thread")
    thread.get_by_text("Which book?").wait_for()
    [root] = [m for m in slack.user("olga").dm().messages() if m.get("subtype") == "assistant_app_thread"]
    place = {"channel_id": root["channel"], "thread_ts": root["ts"]}
    client_of(slack).assistant_threads_setStatus(**place, status="is thinking…")
    thread.get_by_role("status").filter(has_text="app is thinking…").wait_for()
    client_of(slack).chat_postMessage(channel=root["channel"], thread_ts=root["ts"], text="done")
    thread.get_by_role("status").filter(has_text=re.compile("^$")).first.wait_for(state="attached")


def test_a_stream_a_pin_and_a_warning_are_shown(page: Page, slack: Any) -> None:
    client = client_of(slack)
    parent = client.chat_postMessage(channel="#general", text="Ready", nonsense="x")
    place = {"channel": parent["channel"], "thread_ts": parent["ts"]}
    row(page, "Ready").hover()
    row(page, "Ready").get_by_role("button", name="More actions").click()
    page.get_by_role("option", name="Pin").click()
    row(page, "Ready").get_by_text("Pinned").wait_for()
    whom = {"recipient_user_id": slack.user("olga").id, "recipient_team_id": "T0PLAYGROUND"}
    started = client.chat_startStream(**place, **whom, markdown_text="**slowly**")
    row(page, "Ready").get_by_role("button", name="1 reply").click()
    thread = page.get_by_role("complementary", name="Thread")
    thread.get_by_text("Writing…").wait_for()
    client.chat_stopStream(channel=parent["channel"], ts=started["ts"], markdown_text=" but surely")
    thread.get_by_text("but surely").wait_for()
    assert thread.get_by_text("Writing…").count() == 0
    page.get_by_role("button", name=re.compile("warning")).click()
    inspector = page.get_by_role("complementary", name="Traffic")
    inspector.get_by_text("chat.postMessage has no argument 'nonsense'").wait_for()
    assert inspector.get_by_role("combobox", name="Kind").input_value() == "warning"
    page.reload()
    page.get_by_role("button", name=re.compile("warning")).wait_for()
