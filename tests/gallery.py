"""`python -m tests.gallery [FOLDER]`: every golden message as a picture, light, dark and as wide as a phone.

The pictures go to a folder of their own (`build/gallery`), a few cards on each, to be looked at after a change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slack_sdk import WebClient

from playground.tests.support.browser import chromium
from slack_playground import Playground
from tests.support.golden import FOLDER

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LOOKS: Mapping[str, tuple[int, Literal["light", "dark"]]] = {
    "light": (1000, "light"),
    "dark": (1000, "dark"),
    "phone": (390, "light"),
}
CARDS = 6  # on a picture; the page shows so many of the longest at once


def messages() -> dict[str, dict[str, Any]]:
    """The golden messages by name, without forms and pages."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    return {name: each for name, each in found.items() if isinstance(each, dict) and "text" in each}


def take(browser: Browser, shown: Sequence[tuple[str, dict[str, Any]]], target: Path) -> Iterator[Path]:
    """Pictures of these messages in one channel, each below its name."""
    with Playground.in_thread() as slack:
        slack.user("olga")
        client = WebClient(token=slack.bot_token, base_url=slack.api_url)
        for name, message in shown:
            client.chat_postMessage(channel="general", text=f"`{name}`")
            client.chat_postMessage(channel="general", **message)
        for look, (width, scheme) in LOOKS.items():
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto(f"{slack.url}#as=olga&in=general")
            page.locator("#timeline .message").nth(2 * len(shown) - 1).wait_for(state="attached")
            height = page.locator("#timeline").evaluate("node => node.scrollHeight")
            page.set_viewport_size({"width": width, "height": int(height) + 200})
            path = target / f"{shown[0][0].partition('_')[0]}_{shown[0][0].partition('_')[2]}.{look}.png"
            page.screenshot(path=path)
            page.close()
            yield path


def main(folder: str = "build/gallery") -> int:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    everything = list(messages().items())
    with chromium() as browser:
        for first in range(0, len(everything), CARDS):
            for path in take(browser, everything[first : first + CARDS], target):
                print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
