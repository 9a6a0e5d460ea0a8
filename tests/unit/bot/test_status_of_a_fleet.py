"""The status of many hosts in Slack: grouped by host, an unresponsive host once, and paged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.views.workers import PAGE, status
from slack_playground.blockkit import check_message
from supervisor_core.commands.addresses import SILENT
from supervisor_core.commands.command import Command

STATUS = Command("status", "", ())
RUNNING = {
    "state": "running",
    "health": "healthy",
    "fine": True,
    "pid": 4711,
    "paused": False,
    "reason": "",
    "last_error": None,
    "team": "web",
}


def worker(address: str, **changed: Any) -> dict[str, Any]:
    return {**RUNNING, "id": address, **changed}


def silent(address: str) -> dict[str, Any]:
    return worker(
        address, health="unknown", fine=False, reason="web-9 is unresponsive", **{SILENT: "last seen 21:32 UTC"}
    )


def texts(shown: Mapping[str, Any]) -> list[str]:
    blocks = shown["attachments"][0]["blocks"]
    return [block["text"]["text"] for block in blocks if block["type"] == "section"]


def test_a_host_with_several_workers_has_a_heading_and_its_workers_are_together() -> None:
    workers = [worker("web-1/a"), worker("web-2/a"), worker("web-1/b"), worker("own")]
    shown = status(STATUS, workers, "n", host="hub")
    first, second = texts(shown)
    assert first.split("\n")[0] == "*web-1* · all 2 workers running"
    assert ["web-1/a" in line or "web-1/b" in line for line in first.split("\n")[1:]] == [True, True]
    assert "web-2/a" in second
    assert "own" in second
    assert "all 4 workers running · 3 hosts" in shown["text"]


def test_an_unresponsive_host_is_one_line_with_its_workers_and_comes_first() -> None:
    workers = [worker("web-1/a"), *(silent(f"web-9/w{number}") for number in range(7))]
    (only,) = texts(status(STATUS, workers, "n", host="hub"))
    assert only.split("\n")[:2] == [
        ":red_circle: *web-9* unresponsive",
        "last seen 21:32 UTC; 7 workers: w0, w1, w2, w3, w4 and 2 more",
    ]
    assert only.count("web-9") == 1


def test_a_thousand_workers_of_a_hundred_hosts_are_pages_that_slack_takes() -> None:
    workers = [worker(f"web-{number % 100}/w{number}", reason="x" * 300) for number in range(1000)]
    for page in (0, 39):
        shown = status(STATUS, workers, "n", page, host="hub")
        assert check_message({"text": shown["text"], "attachments": shown["attachments"]}) == []
        lines = "\n".join(texts(shown)).split("\n")
        assert sum("running" in line and "/" in line for line in lines) == PAGE
