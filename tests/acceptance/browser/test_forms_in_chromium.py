"""The forms of our commands in a real Chromium: each is drawn, filled in as a person would, and read."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from slack_bolt import App
from slack_sdk import WebClient

from bot.requests.forms import read_form
from bot.views import forms as views
from bot.views.forms import matching_options
from playground.tests.support.apps import running_sync
from playground.tests.support.browser import chromium, olgas_page, row
from slack_playground import Playground
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.targets import GrammarContext
from tests.support.homes import ROOT
from tests.support.sampling import rounds, seed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


FEW = GrammarContext(("OrionMX", "vega"), {"archive": ("vega",)})
MANY = GrammarContext(tuple(f"W{number:03}" for number in range(150)), {}, "W007")


class Desk:
    """An app that shows our forms, and says what it read."""

    def __init__(self, slack: Any) -> None:
        self.context = FEW
        self.app = App(client=WebClient(token=slack.bot_token, base_url=slack.api_url))
        self.app.shortcut(views.SHORTCUT)(self._open)
        self.app.action(views.PICK)(self._pick)
        self.app.options("value")(self._options)
        self.app.action("value")(lambda ack: ack())
        self.app.view(views.FORM)(self._sent)
        self.opened = threading.Event()

    def _open(self, ack: Any, body: Any, client: WebClient) -> None:
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=views.command_picker(list(CATALOG.values())))

    def _pick(self, ack: Any, body: Any, client: WebClient) -> None:
        ack()
        definition = CATALOG[body["actions"][0]["selected_option"]["value"]]
        view = body["view"]
        shown = views.command_form(definition, self.context, approval=definition.needs_approval)
        client.views_update(view_id=view["id"], hash=view["hash"], view=shown)

    def _options(self, ack: Any, payload: Any) -> None:
        ack(options=matching_options(payload["value"], self.context))

    def _sent(self, ack: Any, body: Any, client: WebClient) -> None:
        found = read_form(body["view"], self.context)
        if not isinstance(found, str):
            ack(response_action="errors", errors=dict(found))
            return
        ack()
        where = body["view"]["state"]["values"]["where"]["value"]["selected_conversation"]
        client.chat_postMessage(channel=where, text=f"read: {found}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def slack() -> Iterator[Any]:
    manifest = yaml.safe_load((ROOT / "manifest.yml").read_text(encoding="utf-8"))
    with Playground.in_thread(manifest) as playground:
        playground.user("olga")
        yield playground


@pytest.fixture
def desk(slack: Any) -> Iterator[Desk]:
    made = Desk(slack)
    with running_sync(slack, made.app):
        yield made


@pytest.fixture
def page(browser: Browser, slack: Any, desk: Desk) -> Iterator[Page]:
    assert desk.context is FEW
    with olgas_page(browser, slack) as opened:
        yield opened


def picked(page: Page, name: str) -> Any:
    """The form of a command, opened as a person would."""
    page.locator("#composer").get_by_role("button", name="Shortcuts and commands").click()
    page.get_by_role("option", name="Run a command").click()
    picker = page.get_by_role("dialog", name="Run a command")
    picker.get_by_role("button", name="Choose a command").click()
    search = page.get_by_role("combobox", name="Search: Choose a command")
    title = views.submit_text(CATALOG[name])
    search.fill(title)
    page.get_by_role("option", name=re.compile(f"^{re.escape(title)}")).first.click()
    return page.get_by_role("dialog", name=title)


@pytest.mark.sampled
def test_every_form_is_drawn_with_a_field_for_each_of_its_parts(page: Page) -> None:
    names = random.Random(seed()).sample(sorted(CATALOG), rounds(len(CATALOG), sample=10))
    for name, definition in ((name, CATALOG[name]) for name in names):
        form = picked(page, name)
        form.get_by_role("button", name=views.submit_text(definition), exact=True).wait_for()
        for block in views.command_form(definition, FEW)["blocks"]:
            if block["type"] == "input":
                form.get_by_label(block["label"]["text"]).first.wait_for()
            if "hint" in block:
                form.get_by_text(block["hint"]["text"]).wait_for()
        assert form.get_by_text("playground can't show").count() == 0
        form.get_by_role("button", name="Cancel").click()
        form.wait_for(state="detached")


def test_a_form_is_filled_in_and_begins_in_the_channel_that_is_looked_at(page: Page) -> None:
    form = picked(page, "rollback")
    form.get_by_text("until an approver agrees").wait_for()
    form.get_by_role("button", name="Post in").get_by_text("general").wait_for()
    form.get_by_role("button", name="Worker").click()
    page.get_by_role("option", name="team:archive").click()
    form.get_by_role("button", name="Commits to revert").click()
    page.get_by_role("option", name="Last 3").click()
    form.get_by_role("textbox", name="Label").fill("slow since noon -- it's the queue")
    form.get_by_role("button", name="Roll back").click()
    row(page, "read: rollback team:archive 3 slow since noon -- it's the queue").wait_for()


def test_an_error_stands_at_its_field_and_what_was_typed_is_kept(page: Page) -> None:
    form = picked(page, "schedule add")
    form.get_by_role("textbox", name="Name").fill("nightly")
    form.get_by_role("textbox", name="Cron").fill("99 3 * * *")
    form.get_by_role("textbox", name="Command").fill("pause vega")
    form.get_by_role("button", name="Add schedule").click()
    form.get_by_text("The minute of '99 3 * * *' isn't valid.").wait_for()
    assert form.get_by_role("textbox", name="Cron").input_value() == "99 3 * * *"
    form.get_by_role("textbox", name="Cron").fill("0 3 * * *")
    form.get_by_role("button", name="Add schedule").click()
    row(page, "read: schedule add nightly").wait_for()


def test_a_box_that_is_ticked_is_an_option(page: Page) -> None:
    form = picked(page, "update-deps")
    form.get_by_role("checkbox", name="--reset").check()
    form.get_by_role("button", name="Worker").click()
    page.get_by_role("option", name="vega").click()
    form.get_by_role("button", name="Update with packages").click()
    row(page, "read: update-deps vega --reset").wait_for()


def test_among_many_workers_one_is_found_by_its_name(page: Page, desk: Desk) -> None:
    desk.context = MANY
    form = picked(page, "pause")
    form.get_by_role("button", name="W007").click()
    page.get_by_role("combobox", name="Search: Type part of a name").fill("w12")
    page.get_by_role("option", name="W123").click()
    form.get_by_role("button", name="Pause", exact=True).click()
    row(page, "read: pause W123").wait_for()
