"""Reading and typing on the page: emoji, dates and mentions, the place in a channel, and the text being typed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk import WebClient

from playground.tests.support.browser import olgas_page, row
from slack_playground import Playground

pytestmark = pytest.mark.sampled(of_file=4)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route


MANY = 80
HUNDREDS = 600  # more than one answer of the playground holds
AT_ONCE, IN_ALL = 75, 200  # messages that are drawn in one task, and that stand in the page

COUNT = """
window.most = 0;
addEventListener('DOMContentLoaded', () => new MutationObserver((changes) => {
  const drawn = changes.flatMap((each) => [...each.addedNodes]).flatMap((node) => (
    node.nodeType !== 1 ? [] : node.matches('.message') ? [node] : [...node.querySelectorAll('.message')]));
  window.most = Math.max(window.most, new Set(drawn).size);
}).observe(document.getElementById('timeline'), { childList: true, subtree: true }));
"""


@pytest.fixture
def slack() -> Iterator[Any]:
    with Playground.in_thread() as playground:
        playground.user("olga")
        yield playground


@pytest.fixture
def page(browser: Browser, slack: Any) -> Iterator[Page]:
    with olgas_page(browser, slack) as opened:
        yield opened


def bot_says(slack: Any, text: str, **more: Any) -> str:
    client = WebClient(token=slack.bot_token, base_url=slack.api_url)
    return str(client.chat_postMessage(channel="general", text=text, **more)["ts"])


def composer(page: Page) -> Any:
    return page.get_by_role("textbox", name="Message #general")


def hold_next_post(page: Page) -> list[Route]:
    """The request that sends the next message, held until the test lets it go."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/_playground/post", hold, times=1)
    return held


def place_of(page: Page, locator: Locator) -> float:
    """Where it is once it has stayed there for a while; it has no place in the moment in which it is drawn again."""
    tops: list[float | None] = []
    while True:
        box = locator.bounding_box()
        tops.append(box["y"] if box else None)
        settled = [top for top in tops[-4:] if top is not None]
        if len(settled) == 4 and max(settled) - min(settled) <= 1:
            return settled[-1]
        page.wait_for_timeout(100)


def scroll_to(page: Page, locator: Locator) -> float:
    """Scroll to this message, once all that were posted are there: the page follows them while it is at the end."""
    row(page, f"number {MANY - 1}:").wait_for(state="attached")
    locator.evaluate("node => node.scrollIntoView({block: 'start'})")
    return place_of(page, locator)


def test_short_names_of_emoji_are_shown_and_other_words_stay(slack: Any, page: Page) -> None:
    bot_says(slack, "names :zzz: :white_small_square: :wave::skin-tone-4: :flag-nz: and :no-such-thing: at 10:30:45 🟢")
    shown = row(page, "names").locator(".text").inner_text()
    assert shown == "names 💤 ▫️ 👋🏽 🇳🇿 and :no-such-thing: at 10:30:45 🟢"
    assert row(page, "names").get_by_role("img", name="zzz").count() == 1


def test_dates_are_shown_in_words_and_how_long_ago(slack: Any, page: Page) -> None:
    now = int(time.time())
    bot_says(slack, f"dates <!date^{now - 180}^{{ago}} or {{date_short_pretty}}|x> <!date^{now + 7200}^{{ago}}|x>")
    bot_says(slack, "iso <!date^1700000000^{date_num}|x>")
    bot_says(slack, f"days <!date^{now}^{{day_divider_pretty}}|x>, <!date^1700000000^{{date_long_full}}|x>")
    assert "days today, November 1" in row(page, "days").inner_text()
    assert "3 minutes ago or " in row(page, "dates").inner_text()
    assert "in 2 hours" in row(page, "dates").inner_text()
    assert "2023-11-1" in row(page, "iso").inner_text()


def test_a_mention_of_a_group_has_its_name(slack: Any, page: Page) -> None:
    group = slack.group("oncall", slack.user("olga"))
    bot_says(slack, f"groups <!subteam^{group}> and <!subteam^S0OTHER|@admins>")
    assert "@oncall and @admins" in row(page, "groups").inner_text()


def test_a_thread_keeps_the_place_in_the_channel(slack: Any, page: Page) -> None:
    stamps = [bot_says(slack, f"number {n}: {'words ' * 60}") for n in range(MANY)]
    for _ in range(3):
        bot_says(slack, "a reply", thread_ts=stamps[60])
    middle = row(page, "number 60:")
    replies = middle.get_by_role("button", name="3 replies")
    replies.wait_for(state="attached")
    place = scroll_to(page, middle)
    replies.click()
    page.locator("#thread .message").nth(3).wait_for()
    assert place_of(page, middle) == pytest.approx(place, abs=2)
    bot_says(slack, "meanwhile")
    slack.user("nina")
    assert place_of(page, middle) == pytest.approx(place, abs=2)
    page.get_by_role("button", name="Close the thread").click()
    assert place_of(page, middle) == pytest.approx(place, abs=2)


def test_a_long_channel_is_drawn_a_few_messages_at_a_time(browser: Browser, slack: Any) -> None:
    olga = slack.user("olga")
    for number in range(HUNDREDS):
        olga.says(f"number {number}.", in_="general")
    with olgas_page(browser, slack, before=COUNT) as page:
        messages = page.locator("#timeline .message")
        row(page, f"number {HUNDREDS - 1}.").wait_for()
        while row(page, "number 0.").count() == 0:
            page.locator("#timeline").evaluate("list => { list.scrollTop = 0; }")
            assert messages.count() < IN_ALL
        page.locator("#timeline").evaluate("list => { list.scrollTop = list.scrollHeight; }")
        row(page, f"number {HUNDREDS - 1}.").wait_for()
        assert messages.count() < IN_ALL
        assert 0 < page.evaluate("window.most") <= AT_ONCE


def test_text_being_typed_survives_a_new_composer_and_keeps_the_focus(slack: Any, page: Page) -> None:
    composer(page).press_sequentially("/deploy ")
    slack.channel("general").archive()
    page.get_by_text("This channel is archived.").wait_for()
    page.request.post(f"{slack.url}_playground/channels", data={"name": "general", "archived": False})
    composer(page).wait_for()
    assert composer(page).input_value() == "/deploy "
    composer(page).focus()
    page.evaluate("""async () => {
        const { store } = await import('/page/base/store.js');
        document.getElementById('composer').dataset.state = '';
        store.touch('place');
    }""")
    page.wait_for_timeout(200)
    page.keyboard.type("web")
    assert composer(page).input_value() == "/deploy web"


def test_a_message_goes_to_the_place_and_from_the_person_it_was_typed_for(slack: Any, page: Page) -> None:
    slack.user("peter")
    slack.channel("ops")
    held = hold_next_post(page)
    box = composer(page)
    for text in ("first", "second"):
        box.fill(text)
        box.press("Enter")
    page.get_by_label("Act as").select_option(label="Peter")
    page.get_by_role("button", name="ops", exact=True).click()
    held[0].continue_()
    page.get_by_role("button", name="general").click()
    row(page, "second").wait_for()
    said = {m["text"]: m["user"] for m in slack.server.world.workspace.find_channel("general").messages.values()}
    assert said == dict.fromkeys(("first", "second"), slack.user("olga").id)


def test_what_could_not_be_sent_comes_back_before_what_was_typed_since(slack: Any, page: Page) -> None:
    held = hold_next_post(page)
    composer(page).fill("lost?")
    composer(page).press("Enter")
    composer(page).press_sequentially("and on")
    held[0].abort()
    page.locator(".problem").filter(has_text="Failed to fetch").wait_for()
    assert composer(page).input_value() == "lost?\nand on"
