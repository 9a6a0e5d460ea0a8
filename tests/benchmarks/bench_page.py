"""The playground's page with 5,000 messages in one channel: the longest task of its thread in Chromium, by `longtask`.

Chromium reports tasks from 50 ms; where none is reported, the row is 0. A tenth of the messages are cards with fields
and buttons, and one has a thread. Each step waits until its effect is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slack_sdk import WebClient

from playground.tests.support.browser import chromium, olgas_page, row
from slack_playground import Playground
from tests.benchmarks.rows import OURS, Row

MESSAGES, REPLIES = 5_000, 100
ROUNDS = 3
LIMIT = "the limit of a long task"
LIMIT_MS = 50

OBSERVE = """
window.longTasks = [];
new PerformanceObserver((list) => { for (const each of list.getEntries()) window.longTasks.push(each.duration); })
  .observe({ type: 'longtask', buffered: true });
"""
LONGEST = """async () => {
  await new Promise((done) => setTimeout(done, 300));  // what is seen and read is settled after a moment
  const longest = Math.max(0, ...window.longTasks);
  window.longTasks.length = 0;
  return longest;
}"""
TO_THE_FIRST = """async () => {
  const list = document.getElementById('timeline');
  const { store } = await import('/page/base/store.js');
  const channel = [...store.channels.values()].find((each) => each.name === 'general').id;
  for (let still = 0; still < 20; still += 1) {
    if (store.more.get(channel) || list.scrollTop > 0) still = 0;
    list.scrollTop = 0;
    await new Promise(requestAnimationFrame);
  }
}"""


def measure() -> list[Row]:
    """The longest task in each step, in all rounds."""
    found: dict[str, float] = {}
    with Playground.in_thread() as slack:
        slack.user("olga")
        client = WebClient(token=slack.bot_token, base_url=slack.api_url)
        slack.channel("random")
        stamps = _fill(slack, client)
        for number in range(REPLIES):
            client.chat_postMessage(channel="general", text=f"Reply {number}", thread_ts=stamps[-5])
        with chromium() as browser:
            for _ in range(ROUNDS):
                for what, longest in _longest(browser, slack, client, stamps).items():
                    found[what] = max(longest, found.get(what, 0.0))
    limit = Row("a task that Chromium calls long", LIMIT, "ms", float(LIMIT_MS))
    return [limit, *(Row(f"the longest task while {what}", OURS, "ms", each) for what, each in found.items())]


def _fill(slack: Any, client: WebClient) -> list[str]:
    """So many messages, from one of each kind that the Web API took: posting each would take long."""
    fields = [{"type": "mrkdwn", "text": f"*Fact {each}*\nsome words about it"} for each in range(4)]
    buttons = [
        {"type": "button", "action_id": each, "text": {"type": "plain_text", "text": each}} for each in ("Undo", "Why")
    ]
    card = [{"type": "section", "fields": fields}, {"type": "actions", "elements": buttons}]
    client.chat_postMessage(channel="general", text="plain")
    client.chat_postMessage(channel="general", text="card", attachments=[{"color": "#2eb67d", "blocks": card}])
    world = slack.server.world
    world.send_event = lambda _event: None  # no app is there to get one
    channel = world.workspace.find_channel("general")
    plain, with_card = (
        {key: value for key, value in each.items() if key != "ts"} for each in list(channel.messages.values())[-2:]
    )
    stamps = []
    for number in range(MESSAGES):
        kind = plain if number % 10 else with_card
        text = f"*Worker{number % 40} restarted* for the {number}th time, see <https://example.com/{number}|the log>"
        said = world.post(channel, {**kind, "text": text})
        world.journal.write("api", method="chat.postMessage", arguments=kind, status=200, answer=said, ms=1.0)
        stamps.append(str(said["ts"]))
    return stamps


def _longest(browser: Any, slack: Any, client: WebClient, stamps: list[str]) -> dict[str, float]:
    found = {}
    with olgas_page(browser, slack, before=OBSERVE) as page:
        timeline = page.locator("#timeline")

        def newest() -> None:
            timeline.evaluate("list => { list.scrollTop = list.scrollHeight; }")
            row(page, f"{MESSAGES - 1}th").wait_for()

        def more() -> None:
            client.chat_postMessage(channel="general", text="One more")
            page.get_by_role("button", name="New messages").wait_for()

        def edited() -> None:
            client.chat_update(channel=slack.channel("general").id, ts=stamps[1], text="The first, edited")
            row(page, "The first, edited").wait_for()

        def thread() -> None:
            row(page, f"{MESSAGES - 5}th").get_by_role("button", name="replies").click()
            page.locator("#thread .message").filter(has_text=f"Reply {REPLIES - 1}").wait_for()

        def back() -> None:
            page.get_by_role("button", name="random").click()
            page.get_by_role("textbox", name="Message #random").wait_for()
            page.get_by_role("button", name="general").click()
            row(page, f"{MESSAGES - 1}th").wait_for()

        steps: dict[str, Callable[[], object]] = {
            "the page is opened": lambda: row(page, f"{MESSAGES - 1}th").wait_for(),
            "all messages are fetched, up to the first": lambda: page.evaluate(TO_THE_FIRST),
            "another message comes": more,
            "a message is edited": edited,
            "going back to the newest": newest,
            "a thread is opened": thread,
            "another channel is opened, and this one again": back,
        }
        for what, do in steps.items():
            do()
            found[what] = float(page.evaluate(LONGEST))
    return found
