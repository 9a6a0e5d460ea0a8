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
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

_contexts: WeakKeyDictionary[Browser, BrowserContext] = WeakKeyDictionary()


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

    def popped(dialog: Dialog) -> None:
        errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    opened = _context(browser).new_page()
    opened.set_default_timeout(20_000)
    opened.add_init_script(before)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("dialog", popped)
    opened.on("request", asked)
    opened.goto(f"{slack.url}#as=olga&in=general")
    opened.get_by_role("textbox", name="Message #general").wait_for()
    yield opened
    opened.close()
    assert errors == []


def _context(browser: Browser) -> BrowserContext:
    """One for all tests of a browser; the page stores nothing in it.

    It holds an empty page, so its window stays open. A window costs Chromium half a second.
    """
    if browser not in _contexts:
        _contexts[browser] = browser.new_context(viewport={"width": 1280, "height": 800})
        _contexts[browser].new_page()
    return _contexts[browser]


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
