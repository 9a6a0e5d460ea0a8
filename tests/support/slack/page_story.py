"""What people do in the page about a command that needs an approval: each of them in turn, as they would by hand."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from bot.demo.stage import CHANNEL

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

PATIENCE_MS = 30_000
OPERATOR, APPROVER = "operator", "approver"
COMPOSER = f"Message #{CHANNEL}"

Shot = Callable[[str], Awaitable[None]]
"""Takes a picture of the page as it is, under this name."""


async def no_picture(_name: str) -> None:
    """For whoever wants none."""


def message(page: Page, text: str | re.Pattern[str]) -> Locator:
    """The last message with these words."""
    return page.locator("#timeline .message").filter(has_text=text).last


async def act_as(page: Page, who: str) -> None:
    """Somebody else sits down."""
    await page.get_by_label("Act as").first.select_option(label=who)
    await page.get_by_role("textbox", name=COMPOSER).wait_for()


async def say(page: Page, text: str) -> None:
    """Type into the composer and send."""
    box = page.get_by_role("textbox", name=COMPOSER)
    await box.fill(text)
    await box.press("Enter")


async def press(page: Page, card: Locator, name: str, title: str) -> None:
    """A button that asks first, and the answer that it is meant."""
    await card.get_by_role("button", name=name).first.click()
    dialog = page.get_by_role("dialog", name=title)
    await dialog.get_by_role("button", name=name).click()
    await dialog.wait_for(state="detached")


async def fill_in_a_form(page: Page, shot: Shot = no_picture) -> None:
    """A rollback by a form."""
    await page.locator("#composer").get_by_role("button", name="Shortcuts and commands").click()
    await page.get_by_role("option", name="Run a command").click()
    picker = page.get_by_role("dialog", name="Run a command")
    await picker.get_by_role("button", name="Choose a command").click()
    await page.get_by_role("combobox", name="Search: Choose a command").fill("Roll back")
    await page.get_by_role("option", name="Roll back").first.click()
    form = page.get_by_role("dialog", name="Roll back")
    await form.get_by_text("Reverts 1 commit").wait_for()
    await form.get_by_role("textbox", name="Label").fill("slow since noon")
    await shot("form.png")
    await form.get_by_role("button", name="Roll back").click()
    await form.wait_for(state="detached")
    await message(page, "slow since noon").wait_for()


async def deny(page: Page) -> None:
    """The approver says no, and why."""
    await act_as(page, APPROVER)
    card = message(page, "slow since noon")
    await card.get_by_role("button", name="Deny").click()
    form = page.get_by_role("dialog", name="Deny")
    await form.get_by_text("One denial ends it").wait_for()
    await form.get_by_role("textbox", name="Why?").fill("not before the backup")
    await form.get_by_role("button", name="Deny").click()
    await form.wait_for(state="detached")
    await card.get_by_text("denied by").first.wait_for()
    await card.get_by_text("not before the backup").wait_for()
    assert await card.get_by_role("button", name="Approve").count() == 0
    await act_as(page, OPERATOR)


async def ask_for_a_rollback(page: Page, label: str, shot: Shot = no_picture) -> Locator:
    """Typed; what would happen stands on the card. The one who asked does not decide."""
    await say(page, f"/supervisor rollback 1 {label}")
    card = message(page, label)
    await card.get_by_text("Approval needed").wait_for()
    await card.get_by_text("Reverts").wait_for()
    await card.get_by_text("0 of 1").wait_for()
    await shot("approval.png")
    await press(page, card, "Approve", "Approve rollback 1 of OrionMX?")
    await message(page, "You requested it").wait_for()
    return card


async def approve(page: Page, card: Locator, shot: Shot = no_picture) -> None:
    """The approver says yes; the card goes on to what came of it."""
    await act_as(page, APPROVER)
    await press(page, card, "Approve", "Approve rollback 1 of OrionMX?")
    await card.get_by_text("OrionMX rolled back").wait_for()
    await card.get_by_text("approved by").wait_for()
    assert await card.get_by_role("button", name="Approve").count() == 0
    await act_as(page, OPERATOR)
    await card.get_by_role("button", name="Undo").wait_for()
    await shot("rolled_back.png")


async def undo(page: Page, card: Locator) -> None:
    """The operator requests an undo, and the approver agrees to its preview."""
    await press(page, card, "Undo", "Undo OrionMX?")
    asked = message(page, "Undo a change to OrionMX?")
    await asked.get_by_text("Approval needed").wait_for()
    await act_as(page, APPROVER)
    await press(page, asked, "Approve", "Approve undo")
    await act_as(page, OPERATOR)
    await message(page, "OrionMX undone").wait_for()
    await card.get_by_text("undone by").wait_for()
    assert await card.get_by_role("button", name="Undo").count() == 0


async def degrade(page: Page, card: Locator, shot: Shot = no_picture) -> None:
    """The worker does not live with it: its process crashes."""
    said = await card.inner_text()
    found = re.search(r"pid (\d+)", said)
    assert found is not None, said
    os.kill(int(found[1]), signal.SIGSEGV)
    await card.get_by_text("degraded").wait_for()
    await card.get_by_role("button", name="Undo").wait_for()
    await shot("degraded.png")
