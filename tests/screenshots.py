"""`make screenshots`: the pictures of the documentation, taken in Chromium from a real demo and from real commands.

`python -m tests.screenshots slack` takes those of the demo alone, `… alerts` that of an alert, `… approvals` those of a
rollback that people agree to, `… fleet` those of three hosts, `… terminal` those of the commands. `… rolling` takes
those of an update of fifty hosts that fails on the seventh (3 minutes, 3 GB of memory), and only if it's named. The
signs on messages need a font that has them, such as Debian's fonts-noto-color-emoji; without one they are boxes.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.demo.stage import CHANNEL, HOSTS, OPERATOR, Stage, set_up
from playground.tests.support.browser import ARGUMENTS, CHROMIUM
from slack_playground import Playground
from tests.support.diagnosis.terminal_scenes import scenes
from tests.support.slack import fleet_story, page_story
from tests.support.slack.fleet_story import fifty_hosts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from playwright.async_api import FloatRect, Locator, Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT, ALERT_HEIGHT = 1180, 830, 590
NARROW, PHONE = 900, 390
SHARPNESS = 1.5  # of small letters, where a page shows them smaller than they are
APP = "supervisor"
LOOKED_AT = Path(__file__).parents[1] / "build" / "rolling"
"""Pictures of the whole page, to look at after a change of the cards."""
OF_A_ROLLING_CHANGE = ("rolling_preview.png", "rolling_running.png", "rolling_halted.png", "rolling_undone.png")
KINDS = ("slack", "alerts", "approvals", "fleet", "terminal")
ROLLING = "rolling"
PATIENCE_MS = 20_000


async def main(wanted: Collection[str] = KINDS) -> int:
    """Take them all; 1 where there is no browser, or something was left behind."""
    if not CHROMIUM.exists():
        print(f"There is no Chromium at {CHROMIUM}.", file=sys.stderr)
        return 1
    problems: list[str] = []
    if "slack" in wanted:
        async with set_up(0, asyncio.Event(), problems) as stage:
            await stage.during(_take(stage))
    if "alerts" in wanted:
        async with set_up(0, asyncio.Event(), problems) as stage:
            await stage.during(_take_alert(stage))
    if "approvals" in wanted:
        async with set_up(0, asyncio.Event(), problems) as stage:
            await stage.during(_take_approvals(stage))
    if "fleet" in wanted:
        async with set_up(0, asyncio.Event(), problems, fleet=True) as stage:
            await stage.during(_take_fleet(stage))
    if ROLLING in wanted:
        await _take_rolling()
    if "terminal" in wanted:
        pages = await asyncio.to_thread(lambda: list(scenes()))
        await _draw(pages)
    print("\n".join(problems), end="", file=sys.stderr)
    return 1 if problems else 0


async def _draw(pages: Sequence[tuple[str, str]]) -> None:
    """The pictures of terminals, each as large as what is in it."""
    from playwright.async_api import async_playwright

    IMAGES.mkdir(exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = await browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark", device_scale_factor=SHARPNESS
        )
        for name, content in pages:
            await page.set_content(content)
            await page.locator("main").screenshot(path=IMAGES / name, omit_background=True)
            print(f"docs/images/{name}")
        await browser.close()


async def _take(stage: Stage) -> None:
    from playwright.async_api import async_playwright

    IMAGES.mkdir(exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        await page.goto(stage.address)
        await _say(page, "/supervisor pause hotfix test")
        await _shown(page, "OrionMX paused")
        await stage.slack.user(OPERATOR).says("@bot resume")
        await _shown(page, "OrionMX resumed")
        await _say(page, "/supervisor puase")
        await _shown(page, "Did you mean")
        await _say(page, "/supervisor")
        await _shown(page, "1 worker running")
        await page.get_by_role("button", name=CHANNEL, exact=True).wait_for(timeout=PATIENCE_MS)  # nothing is unread
        await _save(page, "channel.png")
        await page.get_by_role("button", name="Restart OrionMX").click()
        await page.get_by_role("dialog").wait_for(timeout=PATIENCE_MS)
        await _save(page, "confirm.png")
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name=APP, exact=True).click()
        await page.locator("#home").get_by_text("OrionMX").first.wait_for(timeout=PATIENCE_MS)
        await _save(page, "home.png")
        await browser.close()


async def _take_alert(stage: Stage) -> None:
    """The demo's worker can't handle an empty file and crashes."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = await browser.new_page(viewport={"width": WIDTH, "height": ALERT_HEIGHT}, color_scheme="light")
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(stage.address)
        broken = stage.home.incoming / "spec-004.txt"
        broken.touch()
        button = page.locator("#timeline").get_by_role("button", name="Acknowledge")
        await button.first.wait_for()
        await page.mouse.move(0, 0)  # a message under the mouse shows its tools
        await _save(page, "alert.png")
        broken.unlink()
        await browser.close()


async def _take_fleet(stage: Stage) -> None:
    """A command to all hosts, and the status of all while one of them is dead."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = await browser.new_page(viewport={"width": WIDTH, "height": ALERT_HEIGHT}, color_scheme="light")
        page.set_default_timeout(PATIENCE_MS)
        await page.goto(stage.address)
        await _say(page, "/supervisor restart all new settings")
        await _shown(page, "took")  # it has ended
        await _save(page, "fleet_command.png")
        await stage.hosts[HOSTS[-1]].kill()
        await _shown(page, "has stopped responding")
        await _say(page, "/supervisor status")
        await _shown(page, "3 hosts")
        await _save(page, "fleet.png")
        await stage.hosts[HOSTS[-1]].start({})
        await browser.close()


async def _take_rolling() -> None:
    """A rolling update of fifty hosts: its messages for the documentation, and the page light, dark, and as wide as a
    phone."""
    from playwright.async_api import async_playwright

    LOOKED_AT.mkdir(parents=True, exist_ok=True)
    async with Playground() as slack, fifty_hosts(slack), async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = await browser.new_page(
            viewport={"width": NARROW, "height": HEIGHT}, color_scheme="light", device_scale_factor=SHARPNESS
        )
        page.set_default_timeout(PATIENCE_MS)
        address = f"{slack.url}#as={OPERATOR}&in={CHANNEL}"
        await page.goto(address)

        async def shot(name: str, *messages: Locator) -> None:
            if name in OF_A_ROLLING_CHANGE:
                await _save_messages(page, name, messages)
            for look, width in (("light", WIDTH), ("dark", WIDTH), ("phone", PHONE)):
                scheme: Literal["dark", "light"] = "dark" if look == "dark" else "light"
                other = await browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
                await other.goto(address)
                await other.locator("#timeline .message").last.wait_for()
                await other.screenshot(path=LOOKED_AT / name.replace(".png", f".{look}.png"))
                await other.close()
            print(LOOKED_AT / name)

        await fleet_story.tell(page, shot)
        await browser.close()


async def _save_messages(page: Page, name: str, messages: Sequence[Locator]) -> None:
    """A picture of these messages, which follow each other."""
    await page.mouse.move(0, 0)  # a message under the mouse, or with the focus, shows its tools
    await page.evaluate("document.activeElement?.blur()")
    await messages[0].scroll_into_view_if_needed()
    boxes = [box for each in messages if (box := await each.bounding_box())]
    top, bottom = boxes[0]["y"], boxes[-1]["y"] + boxes[-1]["height"]
    clip: FloatRect = {"x": boxes[0]["x"], "y": top, "width": boxes[0]["width"], "height": bottom - top}
    await page.screenshot(path=IMAGES / name, clip=clip)
    print(f"docs/images/{name}")


async def _take_approvals(stage: Stage) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(PATIENCE_MS)
        shot = partial(_save, page)
        await page.goto(stage.address)
        await page_story.fill_in_a_form(page, shot)
        await page_story.deny(page)
        card = await page_story.ask_for_a_rollback(page, "hotfix", shot)
        await page_story.approve(page, card, shot)
        await page_story.degrade(page, card, shot)
        await browser.close()


async def _say(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Message #")
    await box.fill(text)
    await box.press("Enter")


async def _shown(page: Page, text: str) -> None:
    await page.locator("#timeline .message").filter(has_text=text).last.wait_for(timeout=PATIENCE_MS)


async def _save(page: Page, name: str) -> None:
    await page.screenshot(path=IMAGES / name)
    print(f"docs/images/{name}")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or KINDS)))
