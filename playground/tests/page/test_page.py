"""The playground's page, driven in a real Chromium as a person would, with an unmodified Bolt app behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from playground.tests.support import blockkit_samples, page_app
from playground.tests.support.apps import running_sync
from playground.tests.support.browser import olgas_page, row, say
from slack_playground import Playground, Timings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Locator, Page

pytestmark = [pytest.mark.filterwarnings("ignore:.*text. argument is missing"), pytest.mark.sampled(of_file=20)]

HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script> &lt;b&gt;bold&lt;/b&gt;",
    "<javascript:alert(1)|press me> <data:text/html,x|or me>",
    "before\x00\x07\x1b[31mred\x7f after",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe \u0645\u0631\u062d\u0628\u0627",
    "x" * 20_000,
    "z" + "\N{COMBINING ACUTE ACCENT}" * 500,
    "*a _b ~c `d " * 800,
)


@pytest.fixture
def slack() -> Iterator[Any]:
    with Playground.in_thread(page_app.MANIFEST, timings=Timings(ack=0.5)) as playground:
        playground.user("olga")
        playground.user("peter")
        with running_sync(playground, page_app.make(playground)):
            yield playground


@pytest.fixture
def page(browser: Browser, slack: Any) -> Iterator[Page]:
    with olgas_page(browser, slack) as opened:
        yield opened


def bot(slack: Any) -> Any:
    from slack_sdk import WebClient

    return WebClient(token=slack.bot_token, base_url=slack.api_url)


def test_a_slash_command_is_completed_and_its_card_appears_without_reload(page: Page) -> None:
    box = page.get_by_role("textbox", name="Message #general")
    box.press_sequentially("/dep")
    page.get_by_role("option", name="/deploy").wait_for()
    box.press("Enter")
    assert box.input_value() == "/deploy "
    box.press_sequentially("web")
    box.press("Enter")
    row(page, "Deploy web?").get_by_role("button", name="Approve").click()
    row(page, re.compile("web is approved by @olga", re.IGNORECASE)).wait_for()


def test_a_confirm_dialog_asks_first_and_keeping_changes_nothing(page: Page) -> None:
    say(page, "/deploy web")
    deny = row(page, "Deploy web?").get_by_role("button", name="Deny")
    deny.click()
    dialog = page.get_by_role("dialog", name="Sure?")
    dialog.get_by_role("button", name="No").click()
    assert dialog.count() == 0
    deny.click()
    dialog.get_by_role("button", name="Yes").click()
    row(page, "web is denied").wait_for()


def test_a_modal_shows_its_errors_keeps_what_was_typed_and_is_sent(page: Page) -> None:
    say(page, "/form")
    dialog = page.get_by_role("dialog", name="A form")
    name = dialog.get_by_role("textbox", name="Name")
    dialog.get_by_role("button", name="Send").click()
    dialog.get_by_role("alert").first.wait_for()
    name.fill("bad")
    name.press("Enter")
    dialog.get_by_text("That is no good name").wait_for()
    assert name.input_value() == "bad"
    name.fill("good")
    dialog.get_by_role("button", name="Send").click()
    row(page, "form says good").wait_for()
    dialog.wait_for(state="detached")


def test_a_modal_stacks_on_another_which_is_as_it_was_when_it_comes_back(page: Page) -> None:
    say(page, "/form")
    below = page.get_by_role("dialog", name="A form")
    below.get_by_role("textbox", name="Name").fill("kept")
    below.get_by_role("button", name="Pick one").click()
    page.get_by_role("option", name="Choice 2").click()
    below.get_by_role("button", name="More").click()
    top = page.get_by_role("dialog", name="More")
    top.get_by_text("A second sheet").wait_for()
    page.keyboard.press("Escape")
    below.wait_for()
    assert below.get_by_role("textbox", name="Name").input_value() == "kept"
    assert "Choice 2" in (below.get_by_role("button", name="Pick one").text_content() or "")
    below.get_by_role("button", name="Close all").click()
    below.wait_for(state="detached")


def test_an_ephemeral_answer_is_marked_and_nobody_else_sees_it(page: Page) -> None:
    say(page, "/whisper")
    shown = row(page, "psst, a secret").text_content() or ""
    assert "Only visible to you" in shown
    assert "null" not in shown
    page.get_by_label("Act as").first.select_option(label="Peter")
    page.get_by_role("textbox", name="Message #general").wait_for()
    assert page.get_by_text("psst, a secret").count() == 0


def test_a_command_that_nobody_acknowledges_shows_slacks_error_and_the_inspector_the_missing_ack(page: Page) -> None:
    page.get_by_role("button", name="Traffic").click()
    say(page, "/slow")
    row(page, "operation_timeout").wait_for()
    page.locator(".entry .ack", has_text="no ack").wait_for()
    say(page, "/deploy web")
    page.locator(".entry .ack.good", has_text=re.compile(r"ack \d+ ms")).first.wait_for()


def test_a_mention_is_answered_in_a_thread_which_opens_beside(page: Page) -> None:
    say(page, "@deployer hello")
    row(page, "hello").get_by_role("button", name=re.compile("1 reply")).click()
    thread = page.get_by_role("complementary", name="Thread")
    thread.get_by_text("you called?").wait_for()
    thread.get_by_role("textbox", name="Reply").fill("thanks")
    page.keyboard.press("Enter")
    thread.locator(".message").filter(has_text="thanks").wait_for()
    row(page, "hello").get_by_role("button", name=re.compile("2 replies")).wait_for()


def test_the_apps_home_is_published_and_drawn(page: Page) -> None:
    page.get_by_role("navigation").get_by_role("button", name="deployer").click()
    page.get_by_role("heading", name="Your deploys").wait_for()
    page.get_by_role("tab", name="Messages").click()
    page.get_by_role("textbox", name=re.compile("Message deployer")).wait_for()


def test_what_is_unread_is_marked_until_it_is_looked_at(page: Page, slack: Any) -> None:
    slack.user("peter").says("look here", in_="ops")
    mark = page.get_by_role("navigation").get_by_role("button", name="ops, 1 unread")
    mark.click()
    row(page, "look here").wait_for()
    page.get_by_role("navigation").get_by_role("button", name="ops", exact=True).wait_for()


def test_edits_and_deletions_are_seen_live(page: Page, slack: Any) -> None:
    client = bot(slack)
    posted = client.chat_postMessage(channel="general", text="first words")
    row(page, "first words").wait_for()
    client.chat_update(channel=posted["channel"], ts=posted["ts"], text="second words")
    row(page, "second words").get_by_text("(edited)").wait_for()
    client.chat_delete(channel=posted["channel"], ts=posted["ts"])
    page.get_by_text("second words").wait_for(state="detached")


def test_a_file_that_was_chosen_is_shared(page: Page) -> None:
    chosen: FilePayload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"some notes"}
    page.locator("#composer input[type=file]").set_input_files([chosen])
    row(page, "notes.txt").get_by_role("link", name="notes.txt").wait_for()


def test_hostile_texts_are_harmless(page: Page, slack: Any) -> None:
    client = bot(slack)
    for number, words in enumerate(HOSTILE):
        blocks = [
            {"type": "section", "text": {"type": "mrkdwn", "text": words[:3000]}},
            {"type": "section", "text": {"type": "plain_text", "text": words[:3000]}},
            {"type": "markdown", "text": words[:3000]},
            {
                "type": "rich_text",
                "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": words[:3000]}]}],
            },
        ]
        client.chat_postMessage(channel="general", text=words)
        client.chat_postMessage(channel="general", text="x", blocks=blocks, username=words[:60])
        client.chat_postMessage(channel="general", text=f"the end of {number}")
        row(page, f"the end of {number}").wait_for()
        assert page.locator("#timeline :is(script, iframe, img, object, embed)").count() == 0
        for address in page.locator("#timeline a").evaluate_all("all => all.map(each => each.href)"):
            assert address.startswith(("http://", "https://"))
        shown = page.locator("#timeline").text_content() or ""
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", shown)
        assert page.evaluate(
            "document.getElementById('timeline').scrollWidth <= document.getElementById('timeline').clientWidth"
        )


def test_nothing_but_the_playground_may_be_loaded_or_run(page: Page) -> None:
    refused = page.evaluate(
        """() => { const s = document.createElement('script'); s.textContent = 'window.ran = true';
        document.body.append(s); return window.ran !== true; }"""
    )
    assert refused
    assert "default-src 'none'" in (page.locator("meta[http-equiv]").get_attribute("content") or "")


def test_messages_are_walked_with_the_keys_and_the_composer_is_one_key_away(page: Page, slack: Any) -> None:
    for words in ("one", "two", "three"):
        slack.user("peter").says(words, in_="general")
    row(page, "three").wait_for()
    page.get_by_role("feed", name="Messages").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert "two" in (page.locator(":focus").text_content() or "")
    page.keyboard.press("Escape")
    assert page.get_by_role("textbox", name="Message #general").evaluate("node => node === document.activeElement")


def test_what_a_bot_says_is_said_to_a_screen_reader(page: Page, slack: Any) -> None:
    bot(slack).chat_postMessage(channel="general", text="spoken words")
    page.locator("#say", has_text="spoken words").wait_for(state="attached")


def assert_drawn(where: Locator) -> None:
    where.locator(".block").first.wait_for()
    assert where.get_by_text("playground can't show").count() == 0
    assert where.get_by_text("can't be shown").count() == 0


def test_every_valid_modal_and_home_is_drawn(page: Page, slack: Any) -> None:
    for name, view in blockkit_samples.VIEWS.items():
        if view["type"] == "home":
            continue
        say(page, f"/view {name}")
        modal = page.get_by_role("dialog", name="A form")
        assert_drawn(modal)
        modal.press("Escape")
        modal.wait_for(state="detached")
    page.get_by_role("navigation").get_by_role("button", name="deployer").click()
    for view in blockkit_samples.VIEWS.values():
        if view["type"] == "home":
            bot(slack).views_publish(user_id=slack.user("olga").id, view=view)
            assert_drawn(page.get_by_role("tabpanel"))
