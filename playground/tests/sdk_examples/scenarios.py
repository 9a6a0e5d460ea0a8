"""What people do with each kind of example, and what they must see then."""

from __future__ import annotations

import contextlib
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from playground.tests.support.apps import until

Scenario = Callable[[Any], None]


def mentioned(slack: Any) -> None:
    """Mention the bot; it answers."""
    slack.user("operator").says("@bot hi").shows("")


def commanded(command: str) -> Scenario:
    """Give this command; its ack is an answer."""

    def scenario(slack: Any) -> None:
        slack.user("operator").slash(command).shows("")

    return scenario


def both(*scenarios: Scenario) -> Scenario:
    """One after the other."""

    def scenario(slack: Any) -> None:
        for each in scenarios:
            each(slack)

    return scenario


def command_opens_modal(slack: Any) -> None:
    """A command answers, posts a button and opens a modal with menus that the app fills; then the button."""
    operator = slack.user("operator")
    operator.slash("/hello-bolt-python")
    card = operator.sees("You can add a button")
    modal = operator.modal("My App")
    modal.fill("Label", "words")
    with contextlib.suppress(LookupError):
        if "Search" in modal.text:
            modal.menu("es_a").offers("Ma")
            modal.fill("Search", "maru")
            modal.menu("mes_a").offers("")
            modal.fill("Search (multi)", ["1-1", "2-1"])
    modal.submit()
    modal.is_closed()
    card.button("Button").click()
    operator.sees("")


def button_of_command(slack: Any) -> None:
    """A command posts a button; the button is answered."""
    operator = slack.user("operator")
    operator.slash("/hello-bolt-python")
    operator.sees("button").button("Button").click()


def shortcut_opens_modal(callback_id: str, title: str, label: str) -> Scenario:
    """A global shortcut opens a modal, which is submitted."""

    def scenario(slack: Any) -> None:
        operator = slack.user("operator")
        operator.shortcut(callback_id)
        modal = operator.modal(title)
        modal.fill(label, "words")
        modal.submit()

    return scenario


def command_opens(command: str, title: str, label: str) -> Scenario:
    """A command opens a modal, which is submitted."""

    def scenario(slack: Any) -> None:
        operator = slack.user("operator")
        operator.slash(command)
        modal = operator.modal(title)
        modal.fill(label, "words")
        modal.submit()
        modal.is_closed()

    return scenario


def socket_modal(slack: Any) -> None:
    """The modal of the Socket Mode example, with a menu that the app fills."""
    operator = slack.user("operator")
    operator.shortcut("socket-mode")
    modal = operator.modal("Socket Modal")
    modal.fill("Write anything here!", "words")
    modal.menu("favorite-animal").offers("Dog")
    modal.fill("Can you tell us your favorites?", "dog")
    modal.submit()
    modal.is_closed()


def accepted(slack: Any) -> None:
    """A shortcut opens a modal; submitted, it becomes another one."""
    shortcut_opens_modal("test-shortcut", "Awesome Modal", "Input label")(slack)
    slack.user("operator").modal("Accepted")


def current_conversation(slack: Any) -> None:
    """A modal starts with the conversation that the user looks at."""
    operator = slack.user("operator")
    operator.slash("/view")
    modal = operator.modal("#ops")
    modal.submit()
    modal.is_closed()


def events(slack: Any) -> None:
    """A mention and a reaction are answered."""
    operator = slack.user("operator")
    card = operator.says("@bot hi")
    card.shows("What's up?")
    operator.says("this is a test and a bug")
    operator.reacts(card, "eyes")
    slack.channel("ops").shows("OK!")


def message_events(slack: Any) -> None:
    """Words, threads, deletions and files are noticed."""
    operator, ops = slack.user("operator"), slack.channel("ops")
    operator.says("is this a test?").shows("Yes, tests are important!")
    operator.says("it has a bug").shows("Do you mind filing a ticket?")
    operator.says("hello").shows("Hey, what's up?")
    said = operator.says("taken back")
    ops.message(said.said).thread_shows("Hey, what's up?")
    operator.deletes(said.said)
    ops.shows("You've deleted a message: taken back")
    ts = operator.shares("notes.txt", b"words")
    ops.message(ts).has_reaction("eyes")


def reacts_to_messages(slack: Any) -> None:
    """Each message gets a reaction."""
    slack.user("operator").says("hello").has_reaction("eyes")


def greets(slack: Any) -> None:
    """A greeting has a button, which is answered."""
    operator = slack.user("operator")
    operator.says("hello").button("Click Me").click()
    slack.channel("ops").shows("clicked the button")


def assistant(slack: Any) -> None:
    """A thread of the assistant: greeting, prompts, a question, and a question about another channel."""
    operator = slack.user("operator")
    thread = operator.opens_assistant(in_="ops")
    thread.thread_shows("how can I help you today?")
    operator.says("help page", thread=thread)
    thread.thread_shows("help-page-123")
    thread.shows("help page")
    operator.looks_at("general", beside=thread)
    until(lambda: slack.calls("chat.update"))
    operator.says("What does SLACK stand for?", thread=thread)
    thread.thread_shows("referring to #general! Do you need help with the channel?")


def assistant_interaction(slack: Any) -> None:
    """A button in the assistant's thread opens a modal, and its answer is worked on."""
    operator = slack.user("operator")
    thread = operator.opens_assistant(in_="ops")
    thread.thread_shows("Generate random numbers")
    operator.dm().shows("Generate random numbers").button("Generate random numbers").click(as_=operator)
    modal = operator.modal("My Assistant")
    modal.submit()
    thread.thread_shows("OK, you need 5 numbers")
    thread.thread_shows("Here you are:")


def onboarding(slack: Any) -> None:
    """The tutorial's bot greets, and ticks off a reaction and a pin."""
    operator = slack.user("operator")
    operator.joins_workspace()
    welcome = operator.dm().shows("Welcome to Slack!")
    welcome.shows(":white_large_square: Add an emoji reaction")
    operator.reacts(welcome, "tada")
    welcome.becomes(":white_check_mark: Add an emoji reaction")
    operator.pins(welcome)
    welcome.becomes(":white_check_mark: Pin this message")


def healthy(port: str) -> Scenario:
    """The address for health checks answers."""

    def scenario(slack: Any) -> None:
        mentioned(slack)
        end = time.monotonic() + 5
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{slack.ports[port]}/health", timeout=5) as answer:
                    assert answer.status == 200
                    return
            except urllib.error.URLError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    return scenario


def finishes(_slack: Any) -> None:
    """A script ends with exit code 0; the caller waits for it."""
