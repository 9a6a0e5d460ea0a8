"""Cards on the page: the headline, then the attachment with its color bar, and buttons that work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from slack_bolt import App
from slack_sdk import WebClient

from playground.tests.support.apps import running_sync
from playground.tests.support.browser import olgas_page, row
from playground.tests.support.cards import CARDS
from slack_playground import Playground

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def slack() -> Iterator[Any]:
    with Playground.in_thread() as playground:
        playground.user("olga")
        yield playground


def client_of(slack: Any) -> WebClient:
    return WebClient(token=slack.bot_token, base_url=slack.api_url)


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_cards_show_headline_color_and_buttons_and_fit_the_width(browser: Browser, slack: Any, size: Any) -> None:
    for card in CARDS.values():
        client_of(slack).chat_postMessage(channel="general", **card)
    with olgas_page(browser, slack) as page:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        crashed = row(page, "loader crashed")
        headline, attachment = crashed.locator(".content > .text"), crashed.locator(".attachment")
        assert headline.bounding_box()["y"] < attachment.bounding_box()["y"]
        assert attachment.evaluate("node => getComputedStyle(node).borderInlineStartColor") == "rgb(192, 57, 43)"
        group = crashed.get_by_role("group", name="Attachment")
        assert group.get_by_role("button", name="Roll back 1 commit…").is_visible()
        columns = crashed.locator(".fields").evaluate("n => getComputedStyle(n).gridTemplateColumns.split(' ').length")
        assert columns == (2 if size[0] > 800 else 1)
        assert page.locator("#timeline").evaluate("node => node.scrollWidth <= node.clientWidth")


def test_a_button_in_an_attachment_is_pressed_and_the_card_changes_its_color(browser: Browser, slack: Any) -> None:
    app = App(client=client_of(slack))

    @app.action("acknowledge")
    def acknowledge(ack: Any, respond: Any) -> None:
        ack()
        respond(replace_original=True, **CARDS["recovered"])

    with running_sync(slack, app):
        app.client.chat_postMessage(channel="general", **CARDS["crashed"])
        with olgas_page(browser, slack) as page:
            row(page, "loader crashed").get_by_role("button", name="Acknowledge").click()
            recovered = row(page, "loader recovered").locator(".attachment")
            recovered.wait_for()
            assert recovered.evaluate("node => getComputedStyle(node).borderInlineStartColor") == "rgb(46, 139, 87)"
