"""App Home as a browser draws it: with 1, 40 and 400 workers, for each role, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk import WebClient

from bot.views.home import home
from playground.tests.support.browser import chromium
from slack_playground import Playground
from tests.support.homes import ROOT
from tests.support.slack.host_pictures import READERS, hostile, picture

if TYPE_CHECKING:
    from playwright.sync_api import Browser


SIZES = ({"width": 1180, "height": 760}, {"width": 390, "height": 844})
PAGES = {f"{count} {role}": home(picture(count, role), READERS[role]) for count in (1, 40, 400) for role in READERS}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES, ids=["desk", "phone"])
def test_every_page_is_drawn_whole_and_fits_the_width(browser: Browser, size: Any) -> None:
    with Playground.in_thread(ROOT / "manifest.yml") as slack:
        for name in ("anna", "olga"):
            slack.user(name)
        client, world = WebClient(token=slack.bot_token, base_url=slack.api_url), slack.server.world
        me = slack.user("olga").id
        page = browser.new_page(viewport=size)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{slack.url}#as=olga&in={world.direct([world.bot.id, me]).id}&tab=home")
        for name, view in {**PAGES, "hostile": home(hostile(6), READERS["operator"])}.items():
            view["blocks"][0]["text"]["text"] = f"Host of {name}"
            client.views_publish(user_id=me, view=view)
            page.locator("#home").get_by_text(f"Host of {name}", exact=True).wait_for(timeout=20_000)
            drawn = page.locator("#home .home-inner > *")
            assert drawn.count() == len(view["blocks"]), name
            buttons = [each for block in view["blocks"] if block["type"] == "actions" for each in block["elements"]]
            menus = [block for block in view["blocks"] if "accessory" in block]
            assert page.locator("#home .home-inner button").count() == len(buttons) + len(menus), name
            fits = page.evaluate(
                "document.getElementById('home').scrollWidth <= document.getElementById('home').clientWidth"
            )
            assert fits, name
        page.close()
        assert errors == []
