"""The page draws every kind of block, at every width."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk import WebClient

from playground.tests.support import blockkit_samples, page_app
from slack_playground import Playground

if TYPE_CHECKING:
    from playwright.sync_api import Browser


POSTED = ("text", "blocks", "attachments", "markdown_text", "metadata")


@pytest.fixture
def slack() -> Iterator[Any]:
    with Playground.in_thread(page_app.MANIFEST) as playground:
        playground.user("olga")
        yield playground


def samples() -> list[dict[str, Any]]:
    messages = [sample for sample in blockkit_samples.MESSAGES.values() if "response_type" not in sample]
    return [
        {key: sample[key] for key in POSTED if key in sample} for sample in messages if "delete_original" not in sample
    ]


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_valid_message_is_drawn_and_fits_the_width(browser: Browser, slack: Any, size: Any, scheme: Any) -> None:
    client = WebClient(token=slack.bot_token, base_url=slack.api_url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some samples have no text on purpose
        for sample in samples():
            client.chat_postMessage(channel="general", **sample)
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{slack.url}#as=olga&in=general")
    page.locator("#timeline .message").first.wait_for(state="attached")
    feed = page.locator("#timeline")
    drawn: set[str] = set()
    for _ in range(60):
        drawn |= set(feed.locator(".block").evaluate_all("all => all.map(each => each.dataset.type)"))
        assert feed.get_by_text("playground can't show").count() == 0
        assert feed.get_by_text("can't be shown").count() == 0
        assert feed.evaluate("node => node.scrollWidth <= node.clientWidth")
        if feed.evaluate("node => { node.scrollTop -= 1500; return node.scrollTop; }") == 0:
            break
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    context.close()
    wanted = {block["type"] for sample in samples() for block in sample.get("blocks", [])}
    assert errors == []
    assert wanted <= drawn
