"""Alertmanager's requests to a real daemon: the token, the size, the rate, and what is acknowledged survives."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.web.incoming import BURST, MOST_BYTES, IncomingRequests
from tests.support.daemon.fleets import free_port
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed
from tests.support.waiting import wait_until

TOKEN = "hunter2-hunter2-hunter2"
SECONDS = 10.0


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def home(tmp_path: Path, port: int) -> Iterator[Home]:
    settings: dict[str, Any] = {
        "metrics": {"bind": f"127.0.0.1:{port}"},
        "slack": {"enabled": False},
        "alerts": {"incoming": {"token": TOKEN}},
    }
    with a_home(tmp_path / "home", **settings) as made:
        yield made


def body(status: str = "firing", fingerprint: str = "a1", **labels: str) -> bytes:
    alert = {
        "status": status,
        "labels": {"alertname": "HighErrorRate", "worker": "OrionMX", **labels},
        "annotations": {"summary": "5xx above 5 %"},
        "startsAt": "2026-02-05T08:59:00Z",
        "fingerprint": fingerprint,
    }
    return json.dumps({"version": "4", "alerts": [alert]}).encode()


def sent(port: int, content: bytes, token: str = TOKEN, method: str = "POST") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, "/alertmanager", content, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def shown(home: Home) -> list[tuple[str, str]]:
    """The open alerts: the target's type and the reason."""
    return [(each["target_type"], each["reason"]) for each in home.json("alerts")]


def test_an_alert_is_taken_with_the_token_alone_and_ends_with_its_resolution(home: Home, port: int) -> None:
    home.start_daemon()
    for wrong in ("", "hunter2", f"{TOKEN}x"):
        assert sent(port, body(), wrong)[0] == 401
    assert sent(port, b"{}")[0] == 400
    assert sent(port, body().replace(b"2026-02-05T08:59:00Z", b"9999-12-31T23:59:59-01:00"))[0] == 400
    assert sent(port, body(), method="GET")[0] == 405
    assert sent(port, b"x" * (MOST_BYTES + 1))[0] == 413
    assert home.json("alerts") == []
    assert sent(port, body()) == (200, '{"taken": 1}')
    wait_until(lambda: shown(home) == [("alertmanager", "HighErrorRate. 5xx above 5 %")], SECONDS, "it is shown")
    (why,) = home.json("send", "why OrionMX")
    named = {"words": "Alertmanager: HighErrorRate. 5xx above 5 %", "since": "2026-02-05T08:59:00.000000Z"}
    assert named in why["conditions"], "`why` names it"
    assert sent(port, body("resolved"))[0] == 200
    wait_until(lambda: not home.json("alerts"), SECONDS, "it has ended")
    assert TOKEN not in home.daemon_log()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["foreign_alerts_t.stored:before", "foreign_alerts_t.stored:after"])
def test_killed_around_an_alert_it_is_lost_only_if_it_was_not_acknowledged(home: Home, port: int, point: str) -> None:
    daemon = home.start_daemon(program=armed(point))
    with pytest.raises((http.client.HTTPException, OSError)):
        sent(port, body())
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    daemon = home.start_daemon()
    if point.endswith("before"):
        assert sent(port, body())[0] == 200  # as Alertmanager does
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait(30)
        home.start_daemon()
    wait_until(lambda: shown(home) == [("alertmanager", "HighErrorRate. 5xx above 5 %")], SECONDS, home.daemon_log())


def test_without_a_token_there_is_no_such_route(tmp_path: Path, port: int) -> None:
    with a_home(tmp_path / "home", metrics={"bind": f"127.0.0.1:{port}"}, slack={"enabled": False}) as home:
        home.start_daemon()
        assert sent(port, body())[0] == 404


def test_the_rate_is_limited_also_for_wrong_tokens() -> None:
    now = [0.0]

    async def take(_: bytes) -> int:
        return 1

    requests = IncomingRequests(take, TOKEN, lambda: now[0])
    wrong = [requests._has_room(right=False) for _ in range(BURST + 1)]  # noqa: SLF001 (its clock)
    assert wrong == [True] * BURST + [False]
    assert requests._has_room(right=True), "wrong ones take no room from the right ones"  # noqa: SLF001
    now[0] += 0.6
    assert [requests._has_room(right=False) for _ in range(2)] == [True, False]  # noqa: SLF001
