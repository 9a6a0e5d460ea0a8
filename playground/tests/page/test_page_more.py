"""What goes wrong and what else a person can do, in a real Chromium: retries, faults, shortcuts, choices, files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk import WebClient

from playground.tests.support import page_app_more
from playground.tests.support.apps import running_sync
from playground.tests.support.browser import olgas_page, row, say
from slack_playground import Playground, Timings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

pytestmark = [pytest.mark.filterwarnings("ignore:.*text. argument is missing"), pytest.mark.sampled(of_file=5)]

POST = "**/_playground/post"
TIMINGS = Timings(ack=0.7, redelivery=(0.0, 0.2, 0.2))


@pytest.fixture
def busy() -> page_app_more.Busy:
    return page_app_more.Busy()


@pytest.fixture
def slack(busy: page_app_more.Busy) -> Iterator[Any]:
    with Playground.in_thread(page_app_more.manifest(), timings=TIMINGS) as playground:
        playground.user("olga")
        playground.user("peter")
        with running_sync(playground, page_app_more.make(playground, busy)):
            yield playground


@pytest.fixture
def page(browser: Browser, slack: Any) -> Iterator[Page]:
    with olgas_page(browser, slack) as opened:
        yield opened


def panel(page: Page, name: str) -> Locator:
    """The inspector or the faults, opened."""
    page.get_by_role("button", name=name, exact=True).click()
    return page.get_by_role("complementary", name=name)


def entry(page: Page, *words: str) -> Locator:
    """A line of the inspector."""
    found = page.locator(".entry")
    for each in words:
        found = found.filter(has_text=each)
    return found


def set_fault(page: Page, what: str, **fields: str) -> None:
    """Add a fault in the panel and leave the inspector open."""
    faults = panel(page, "Faults")
    faults.get_by_role("combobox", name="Fault").select_option(what)
    for label, value in fields.items():
        faults.get_by_label(label.replace("_", " ")).fill(value)
    faults.get_by_role("button", name="Add fault").click()
    faults.get_by_role("list", name="Active faults").get_by_text(what).wait_for()
    panel(page, "Traffic")


def test_an_event_that_was_not_acknowledged_comes_again_and_the_inspector_counts(page: Page, busy: Any) -> None:
    panel(page, "Traffic")
    busy.left = 2
    say(page, "@deployer hello")
    row(page, "hello").get_by_role("button", name=re.compile("1 reply")).wait_for()
    entry(page, "app_mention").locator(".ack", has_text="no ack").first.wait_for()
    answered = entry(page, "events_api app_mention, again (2)")
    answered.locator(".ack.good").wait_for()
    answered.locator("summary").click()
    assert busy.retries == ["0", "1", "2"]
    raw = answered.get_by_label("Raw").text_content() or ""
    assert '"retry_attempt": 2' in raw
    assert '"retry_reason": "timeout"' in raw


def test_the_panel_counts_how_often_a_fault_will_still_strike(page: Page) -> None:
    set_fault(page, "error", Times="3")
    say(page, "/deploy web")
    entry(page, "chat.postMessage", "fault: error").wait_for()
    faults = panel(page, "Faults")
    faults.get_by_text("error on chat.postMessage, 2 more").wait_for()
    faults.get_by_role("button", name="Remove error").click()
    faults.get_by_text("No active faults.").wait_for()
    say(page, "/deploy web")
    row(page, "Deploy web?").wait_for()


def test_a_message_typed_while_another_is_on_its_way_is_sent_after_it(page: Page) -> None:
    held: list[Route] = []
    page.route(POST, lambda route: route.continue_() if held else held.append(route))
    with page.expect_request(POST):
        say(page, "the first")
    say(page, "the second")
    held[0].continue_()
    row(page, "the second").wait_for()
    said = page.locator("#timeline .message").all_inner_texts()
    assert re.findall(r"the (\w+)", " ".join(said)) == ["first", "second"]


@pytest.mark.parametrize("width", [1170, 1280, 1440])
def test_a_thread_and_a_panel_leave_the_channel_wide_enough_to_read(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    say(page, "read me")
    row(page, "read me").hover()
    row(page, "read me").get_by_role("button", name="Reply in a thread").click()
    panel(page, "Traffic").wait_for()
    page.get_by_role("complementary", name="Thread").wait_for()
    sizes = page.evaluate(
        "['main', 'thread', 'drawer'].map(id => document.getElementById(id).getBoundingClientRect().width)"
    )
    assert sizes[0] >= 400, sizes
    assert min(sizes[1:]) >= 240, sizes
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_external_select_offers_what_the_bot_says_and_the_choice_reaches_it(page: Page) -> None:
    say(page, "/city")
    row(page, "A city, please").get_by_role("button", name="Which city?").click()
    search = page.get_by_role("combobox", name="Search: Which city?")
    search.press_sequentially("p")
    page.get_by_text("Type at least 2 characters").wait_for()
    search.press_sequentially("ar")
    page.get_by_role("option", name="Parma").wait_for()
    assert page.get_by_role("listbox", name="Which city?").get_by_role("option").all_text_contents() == [
        "Paris",
        "Parma",
    ]
    search.press("ArrowDown")
    search.press("Enter")
    row(page, "off to parma").wait_for()
    row(page, "A city, please").get_by_role("button", name="Parma").wait_for()


def test_a_global_shortcut_opens_a_form_and_one_that_nobody_answers_says_so(page: Page) -> None:
    opener = page.locator("#composer").get_by_role("button", name="Shortcuts and commands")
    opener.click()
    page.get_by_role("option", name="Fill in the form").click()
    dialog = page.get_by_role("dialog", name="A form")
    dialog.get_by_role("textbox", name="Name").fill("good")
    dialog.get_by_role("button", name="Send").click()
    row(page, "form says good").wait_for()
    opener.click()
    page.get_by_role("option", name="Ignored").click()
    page.get_by_role("alert").get_by_text("didn't respond within 3 seconds").wait_for()


def test_a_reaction_is_added_joined_and_taken_back_and_the_bot_hears_of_it(page: Page, slack: Any) -> None:
    slack.user("peter").says("shipped", in_="general")
    said = row(page, "shipped")
    said.hover()
    said.get_by_role("button", name="Add a reaction").first.click()
    page.get_by_role("combobox", name="Search: Emoji").press_sequentially("rocket")
    page.get_by_role("option", name="rocket").click()
    said.get_by_role("button", name=re.compile("^rocket, 1, by Olga$")).wait_for()
    row(page, "somebody sent rocket").wait_for()
    page.get_by_label("Act as").first.select_option(label="Peter")
    said.get_by_role("button", name=re.compile("^rocket, 1, by Olga$")).click()
    mine = said.get_by_role("button", name=re.compile("^rocket, 2, by Olga, Peter$"), pressed=True)
    mine.click()
    said.get_by_role("button", name=re.compile("^rocket, 1, by Olga$"), pressed=False).wait_for()


def test_ones_own_message_is_edited_as_it_was_typed_and_the_bot_hears_of_it(page: Page) -> None:
    say(page, "@peter look: a < b & https://example.org/?a=1&b=2 in #ops today")
    said = row(page, "look: a < b &")
    said.hover()
    said.get_by_role("button", name="More actions").click()
    page.get_by_role("option", name="Edit").click()
    field = page.get_by_role("dialog", name="Edit message").get_by_role("textbox", name="Message")
    assert field.input_value() == "@peter look: a < b & https://example.org/?a=1&b=2 in #ops today"
    field.press("End")
    field.press_sequentially(", now")
    page.get_by_role("button", name="Save").click()
    edited = page.locator("#timeline .message", has_text="(edited)")
    edited.get_by_text("@Peter").wait_for()
    assert "look: a < b & " in (edited.text_content() or "")
    row(page, "now it says").get_by_text("now").wait_for()


def test_a_picture_from_elsewhere_is_a_link_and_is_not_fetched(page: Page, slack: Any) -> None:
    picture = {"type": "image", "image_url": "https://example.org/a.png", "alt_text": "A far picture"}
    WebClient(token=slack.bot_token, base_url=slack.api_url).chat_postMessage(
        channel="general", text="look", blocks=[picture]
    )
    shown = page.locator("#timeline .message").last
    shown.get_by_text("A far picture").first.wait_for()
    assert shown.locator("img").count() == 0
