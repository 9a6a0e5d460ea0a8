"""The status page in a browser: it follows what happens, fits a phone, and says when the supervisor is away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from playground.tests.support.browser import chromium
from supervisor_core.config.load import load_supervisor_config
from tests.support.daemon.fleets import free_port
from tests.support.homes import Home, a_home, demo_command

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page


DESK, PHONE = {"width": 1180, "height": 760}, {"width": 390, "height": 844}
MILLISECONDS = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A daemon with two workers of two teams."""
    workers = {
        "fetcher": {"command": demo_command(), "cwd": ".", "team": "archive"},
        "indexer": {"command": demo_command(), "cwd": ".", "team": "search"},
    }
    folder = tmp_path_factory.mktemp("page") / "home"
    with a_home(
        folder, workers, teams={"archive": {}, "search": {}}, metrics={"bind": f"127.0.0.1:{free_port()}"}
    ) as made:
        made.start_daemon()
        yield made


def address(home: Home) -> str:
    return f"http://{load_supervisor_config(str(home.config)).metrics.bind}/"


def opened(browser: Browser, home: Home, **options: object) -> tuple[Page, list[str]]:
    page = browser.new_page(**options)  # type: ignore[arg-type]  # options of a page
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.goto(address(home))
    return page, errors


def state(page: Page, worker: str, word: str) -> Locator:
    return page.locator("tr", has_text=worker).locator(".state").get_by_text(word, exact=True)


def test_it_follows_a_pause_without_a_reload_and_shows_who_asked(browser: Browser, home: Home) -> None:
    page, errors = opened(browser, home, viewport=DESK)
    state(page, "fetcher", "running").wait_for(timeout=MILLISECONDS)
    page.evaluate("window.stays = true")
    home.supervisor("send", "pause fetcher", "--wait")
    state(page, "fetcher", "paused").wait_for(timeout=MILLISECONDS)
    page.locator(".commands").get_by_text("pause", exact=True).wait_for(timeout=MILLISECONDS)
    home.supervisor("send", "resume fetcher", "--wait")
    state(page, "fetcher", "running").wait_for(timeout=MILLISECONDS)
    assert page.evaluate("window.stays")
    assert page.locator("h3").all_inner_texts() == ["archive", "search"]
    assert errors == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_can_be_read_in_both_colors(browser: Browser, home: Home, scheme: str) -> None:
    page, errors = opened(browser, home, viewport=PHONE, color_scheme=scheme)
    page.locator("tr", has_text="fetcher").wait_for(timeout=MILLISECONDS)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    least = page.evaluate(CONTRAST)
    assert least >= 4.5, "less than WCAG asks for"
    assert errors == []
    page.close()


def test_it_says_when_the_supervisor_is_away_and_goes_on_when_it_is_back(browser: Browser, home: Home) -> None:
    page, _ = opened(browser, home, viewport=DESK)
    page.locator("tr", has_text="fetcher").wait_for(timeout=MILLISECONDS)
    home.kill_newest_daemon()
    page.locator("#offline").wait_for(timeout=MILLISECONDS)
    assert "may be old" in page.locator("#offline").inner_text()
    home.start_daemon()
    page.locator("#offline").wait_for(state="hidden", timeout=MILLISECONDS)
    page.close()


CONTRAST = """() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  let least = 21;
  for (const node of document.querySelectorAll("#page *")) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
    if (!own || node.closest("svg") || !node.offsetParent) continue;
    const [one, two] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
    least = Math.min(least, (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05));
  }
  return least;
}"""
"""The least contrast of a text with what is behind it."""
