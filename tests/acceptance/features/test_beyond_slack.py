"""An alert on its way to a program beyond Slack: real processes, a real web server, and no Slack at all."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.alerts.outside.formats import ID, REPLAY_SECONDS, SIGNATURE, TIMESTAMP, signature
from tests.support.alerts.webhook_receiver import Receiver, a_receiver
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.waiting import wait_until

SECRET, TOKEN = "hunter2-signs", "hunter2-path"
WORKER = {**SLEEPER, "restart": {"policy": "never"}}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with a_receiver() as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, receiver: Receiver) -> Iterator[Host]:
    alerts = {
        "webhook": {"url": f"{receiver.url}/hooks/{TOKEN}?key={TOKEN}", "secret": SECRET},
        "deadman_url": f"{receiver.url}/ping/{TOKEN}",
    }
    settings = {"slack": {"enabled": False}, "logging": {"level": "DEBUG"}, "alerts": alerts}
    with a_home(tmp_path / "home", {"OrionMX": WORKER}, make=Host, **settings) as made:
        assert isinstance(made, Host)
        yield made


def test_an_alert_is_told_signed_from_its_first_word_to_its_end_and_no_secret_is_seen(
    home: Host, receiver: Receiver
) -> None:
    home.started()
    pids = home.all_run()
    wait_until(receiver.pings, 10, "the first ping, right after the start")
    receiver.status = 503
    os.kill(pids["OrionMX"], signal.SIGKILL)
    wait_until(receiver.posts, 10, "the first word")
    wait_until(lambda: "responded 503" in home.status()["supervisor"]["problem"], 10, "it is said that it waits")
    receiver.status = 204
    wait_until(lambda: not home.status()["supervisor"]["problem"], 20, "it got through")
    home.json("send", "restart", "--wait")
    wait_until(lambda: "resolved" in receiver.events(), 20, home.log())

    tries = [each for each in receiver.posts() if each.document["event"] == "first"]
    assert len({each.delivery for each in tries}) == 1 < len(tries)
    for each in receiver.posts():
        stamp = int(each.headers[TIMESTAMP])
        assert each.headers[SIGNATURE] == signature(SECRET, each.headers[ID], stamp, each.body)
        assert abs(time.time() - stamp) < REPLAY_SECONDS
        assert each.headers["User-Agent"].startswith("supervisor-chatops/")
    first, last = tries[-1].document, receiver.posts()[-1].document
    assert (first["condition"], first["severity"], first["host"]) == ("down", "critical", "TestHost")
    assert first["words"].startswith("OrionMX on TestHost: down. Crashed (SIGKILL)")
    assert (last["alert"], last["state"]) == (first["alert"], "closed")
    assert last["words"].startswith("OrionMX on TestHost: recovered after")

    said = home.supervisor("doctor").stdout + home.supervisor("config", "check").stdout
    assert "is reachable; only HEAD / was sent" in said
    assert receiver.posts()[-1].document == last
    report = home.json("send", "diagnostics", "--wait")
    reports = "".join(each.read_text() for each in home.nas.rglob("*.json"))
    said += f"{home.log()} {home.supervisor('status').stdout} {report} {reports}"
    assert "hunter2" not in said
    assert home.supervisor("stop").returncode == 0


def test_the_shell_sends_a_test_alert_and_shows_the_answer_of_each_receiver(home: Host, receiver: Receiver) -> None:
    """Without a daemon: the receivers are tested before it starts."""
    receiver.answer = lambda request: (202, f"\x1b[31mtaken {request.path}".encode())
    found = home.json("alerts", "test")
    assert [(each["receiver"], each["format"], each["ok"]) for each in found] == [("webhook", "json", True)]
    assert receiver.events() == ["first", "resolved"]
    receiver.answer = lambda request: (401, b"unknown")
    failed = home.supervisor("alerts", "test", "webhook")
    assert failed.returncode == 1
    assert "responded 401 Unauthorized" in failed.stdout
    unknown = home.supervisor("alerts", "test", "pager")
    assert "No receiver 'pager'. There are: webhook." in unknown.stderr
    said = f"{found} {failed.stdout} {failed.stderr}"
    assert "hunter2" not in said
    assert "\x1b" not in said
