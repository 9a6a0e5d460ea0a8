"""Approvals, forms and undo in a real Chromium, with a real daemon and its worker behind the page: one long story."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.demo.stage import Stage, set_up
from playground.tests.support.browser import ARGUMENTS, CHROMIUM
from tests.support.skips import skip_or_fail
from tests.support.slack import page_story

if TYPE_CHECKING:
    from playwright.async_api import Page


def test_a_form_is_denied_and_a_rollback_approved_undone_and_followed_by_one_that_degrades() -> None:
    if not CHROMIUM.exists():
        skip_or_fail(f"there is no Chromium at {CHROMIUM}")
    asyncio.run(_in_a_browser())


async def _in_a_browser() -> None:
    from playwright.async_api import async_playwright

    problems: list[str] = []
    errors: list[str] = []
    async with set_up(0, asyncio.Event(), problems) as stage, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_default_timeout(page_story.PATIENCE_MS)
        await stage.during(_story(stage, page))
        await browser.close()
    assert errors == []
    assert problems == []


async def _story(stage: Stage, page: Page) -> None:
    await page.goto(stage.address)
    await page_story.fill_in_a_form(page)
    await page_story.deny(page)
    card = await page_story.ask_for_a_rollback(page, "hotfix")
    await page_story.approve(page, card)
    await page_story.undo(page, card)
    again = await page_story.ask_for_a_rollback(page, "once more")
    await page_story.approve(page, again)
    await page_story.degrade(page, again)
