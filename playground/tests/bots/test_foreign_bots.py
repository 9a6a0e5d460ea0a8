"""Small bots as strangers write them, without an address of the playground, each run as its own program."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from playground.tests.sdk_examples import scenarios
from playground.tests.sdk_examples.__main__ import table
from playground.tests.sdk_examples.catalog import NOT_RUN as REASONS
from playground.tests.sdk_examples.catalog import Example, catalog
from playground.tests.sdk_examples.runner import FAILED, NOT_RUN, PASSED, Result, run
from playground.tests.sdk_examples.scenarios import both, commanded, mentioned

SOCKET_BOT = """
import os
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler

app = App(token=os.environ["SLACK_BOT_TOKEN"])

@app.command("/beep")
def beep(ack):
    ack("boop")

@app.event("app_mention")
def called(say):
    say("here")

SocketModeHandler(app, os.environ["SLACK_APP_TOKEN"]).start()
"""
ASYNC_BOT = """
import asyncio, os
from slack_bolt.async_app import AsyncApp
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler

app = AsyncApp()

@app.event("message")
async def wave(event, client):
    await client.reactions_add(channel=event["channel"], timestamp=event["ts"], name="eyes")

async def main():
    await AsyncSocketModeHandler(app, os.environ["SLACK_APP_TOKEN"]).start_async()

asyncio.run(main())
"""
HTTP_BOT = """
from slack_bolt import App

app = App()

@app.message("hello")
def hello(say):
    button = {"type": "button", "text": {"type": "plain_text", "text": "Click Me"}, "action_id": "click"}
    say(text="Hey", blocks=[{"type": "actions", "elements": [button]}])

@app.action("click")
def click(ack, say):
    ack()
    say("Somebody clicked the button")

app.start(3000)
"""
SCRIPT = """
import os
from slack_sdk import WebClient

answer = WebClient(token=os.environ["SLACK_API_TOKEN"]).chat_postMessage(channel="#random", text="hello", ts="1.1")
assert answer["warning"] == "superfluous_arg"
"""
OAUTH_BOT = """
import os
from slack_bolt import App

os.chdir(os.environ["HOME"])
app = App()

@app.event("app_mention")
def called(say):
    say("installed and here")

app.start(3000)
"""
WRONG = SCRIPT.replace("#random", "#nowhere")
MISSING = "import a_package_that_is_not_there"

BOTS = [
    (SOCKET_BOT, Example("", "bot.py", "", both(commanded("/beep"), mentioned), socket=True), PASSED),
    (ASYNC_BOT, Example("", "bot.py", "", scenarios.reacts_to_messages, socket=True), PASSED),
    (HTTP_BOT, Example("", "bot.py", "", scenarios.greets), PASSED),
    (OAUTH_BOT, Example("", "bot.py", "", mentioned, oauth=True), PASSED),
    (SCRIPT, Example("", "bot.py", "", scenarios.finishes), PASSED),
    (WRONG, Example("", "bot.py", "", scenarios.finishes), FAILED),
    (MISSING, Example("", "bot.py", "", scenarios.finishes), NOT_RUN),
]


@pytest.mark.parametrize(("source", "example", "expected"), BOTS, ids=range(len(BOTS)))
def test_a_bot_that_knows_nothing_of_the_playground_runs(
    tmp_path: Path, source: str, example: Example, expected: str
) -> None:
    (tmp_path / "bot.py").write_text(source)
    result = run(example, tmp_path, sys.executable)
    assert (result.result, bool(result.reason)) == (expected, expected != PASSED), result.reason
    if source == WRONG:
        assert "SlackApiError" in result.reason


def test_every_file_is_in_the_table_with_a_reason_if_it_is_not_run(tmp_path: Path) -> None:
    for name in ("app.py", "dialogs_app.py", "brand_new.py", "empty.py", "__init__.py"):
        path = tmp_path / "examples" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("" if name == "empty.py" else "x = 1\n")
    found = {each.path: each for each in catalog({"bolt-python": tmp_path})}
    assert set(found) == {"examples/app.py", "examples/dialogs_app.py", "examples/brand_new.py"}
    assert found["examples/app.py"].scenario
    assert found["examples/dialogs_app.py"].reason == REASONS["*/dialogs_app.py"]
    assert found["examples/brand_new.py"].reason == "It isn't in the catalog yet."
    dialogs = found["examples/dialogs_app.py"]
    result = run(dialogs, tmp_path, sys.executable)
    assert result == Result(dialogs, NOT_RUN, REASONS["*/dialogs_app.py"])
    shown = table([result, replace(result, result=FAILED, reason="a | b")])
    assert "## bolt-python" in shown
    assert "| examples/dialogs_app.py |  | not run | Dialogs came before modals;" in shown
    assert "a · b" in shown
