"""A real Chromium for tests of the page: the system's own, never one that is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from playground.tests.support.skips import skip_or_fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Error, Page, Request, ViewportSize

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

SIZE: ViewportSize = {"width": 1280, "height": 800}


class _Pages:
    """The pages of a browser. One stays open, and so does the window, which costs Chromium half a second."""

    def __init__(self, browser: Browser) -> None:
        self.context = browser.new_context(viewport=SIZE)
        self.idle = [self.context.new_page()]


_pages: WeakKeyDictionary[Browser, _Pages] = WeakKeyDictionary()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for as long as this lasts; the test is skipped where there is none."""
    if not CHROMIUM.exists():
        skip_or_fail(f"there is no Chromium at {CHROMIUM}")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip_or_fail("Playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def olgas_page(browser: Browser, slack: Any, before: str = "") -> Iterator[Page]:
    """Olga's view of #general; an error in the page, a dialog or a call elsewhere fails the test. `before`: a script
    that runs in it first."""
    errors: list[str] = []

    def asked(request: Request) -> None:
        if not request.url.startswith((slack.url, "blob:")):
            errors.append(request.url)

    def failed(error: Error) -> None:
        errors.append(str(error))

    def popped(dialog: Dialog) -> None:
        errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    with _page(browser, before) as opened:
        opened.set_default_timeout(20_000)
        opened.on("pageerror", failed)
        opened.on("dialog", popped)
        opened.on("request", asked)
        opened.goto(f"{slack.url}#as=olga&in=general")
        opened.get_by_role("textbox", name="Message #general").wait_for()
        yield opened
        opened.remove_listener("pageerror", failed)
        opened.remove_listener("dialog", popped)
        opened.remove_listener("request", asked)
    assert errors == []


@contextmanager
def _page(browser: Browser, before: str) -> Iterator[Page]:
    """A page as if it were new. After a test that passed, the next one uses it again: a new one costs Chromium 0.2 s.

    Nothing is stored in it, but a script that runs first can't be taken back, so a page with one is closed.
    """
    if browser not in _pages:
        _pages[browser] = _Pages(browser)
    pages = _pages[browser]
    page = pages.idle.pop() if pages.idle and not before else pages.context.new_page()
    if before:
        page.add_init_script(before)
    try:
        yield page
    except BaseException:
        page.close()
        raise
    if before:
        page.close()
        return
    page.unroute_all()
    page.goto("about:blank")
    page.mouse.move(0, 0)
    if page.viewport_size != SIZE:
        page.set_viewport_size(SIZE)
    pages.idle.append(page)


def say(page: Page, text: str) -> None:
    """Type into the composer and send."""
    box = page.get_by_role("textbox", name="Message #")
    for _ in range(20):
        box.fill(text)
        if box.input_value() == text:  # else the page drew the composer again in between
            break
    box.press("Enter")


def row(page: Page, text: str | re.Pattern[str]) -> Any:
    """The last message with these words."""
    return page.locator("#timeline .message").filter(has_text=text).last
