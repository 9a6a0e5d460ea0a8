"""The daemon's HTTP service: what it answers, to whom, and that nobody who doesn't ask pays for it."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon.fleets import free_port
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until

SECONDS = 10.0
HALF_REQUESTS = """
import socket, sys, time
connections = []
for _ in range(int(sys.argv[2])):
    connection = socket.socket()
    connection.settimeout(0.1)
    connections.append(connection)
    try:
        connection.connect(("127.0.0.1", int(sys.argv[1])))
        connection.sendall(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\n")
    except OSError:
        pass
print("open", flush=True)
time.sleep(60)
"""


@contextmanager
def a_served_home(folder: Path) -> Iterator[tuple[Home, int]]:
    port = free_port()
    with a_home(folder / "home", metrics={"bind": f"127.0.0.1:{port}"}) as home:
        yield home, port


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, int]]:
    """A daemon with its HTTP service, for all tests here: they only read."""
    with a_served_home(tmp_path_factory.mktemp("web")) as (home, port):
        home.start_daemon()
        yield home, port


def asked(port: int, path: str, host: str = "", method: str = "GET") -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_the_page_shows_the_worker_and_nothing_is_cached_or_taken_from_elsewhere(served: tuple[Home, int]) -> None:
    _, port = served
    status, text, headers = asked(port, "/")
    assert status == 200
    assert "OrionMX" in text
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    for name in ("style.css", "page.js"):
        assert asked(port, f"/{name}")[0] == 200


def test_metrics_can_be_scraped(served: tuple[Home, int]) -> None:
    _, port = served
    status, text, headers = asked(port, "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    assert {"supervisor_workers", "supervisor_ready", "supervisor_ledger_bytes"} <= found


def test_another_site_cannot_read_it_through_a_browser(served: tuple[Home, int]) -> None:
    _, port = served
    assert asked(port, "/", host="attacker.example")[0] == 421
    assert asked(port, "/metrics", host=f"attacker.example:{port}")[0] == 421
    for host in ("localhost", f"127.0.0.1:{port}", "[::1]:80", socket.gethostname()):
        assert asked(port, "/healthz", host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(served: tuple[Home, int], method: str) -> None:
    _, port = served
    assert asked(port, "/", method=method)[0] == 405


@pytest.mark.parametrize("path", ["/../config.yaml", "/static/style.css", "/%2e%2e/%2e%2e/etc/passwd", "/page.py"])
def test_no_other_file_is_served(served: tuple[Home, int], path: str) -> None:
    _, port = served
    assert asked(port, path)[0] == 404


def test_a_page_hears_of_a_change_at_once(served: tuple[Home, int]) -> None:
    home, port = served
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as listener:
        listener.sendall(b"GET /changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = listener.recv(4096)
        assert b"text/event-stream" in received
        home.supervisor("send", "pause", "--wait")
        while b"data: changed" not in received:
            received += listener.recv(4096)
    wait_until(lambda: "paused" in asked(port, "/content")[1], SECONDS, "the pause is shown")
    home.supervisor("send", "resume", "--wait")


def test_a_taken_address_is_named_where_it_was_chosen_and_no_problem_where_it_was_not(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with a_home(tmp_path / "home", metrics={"bind": f"127.0.0.1:{port}"}) as home:
            home.start_daemon()
            (service,) = [each for each in home.status()["services"] if each["name"] == "metrics"]
            assert service["health"] == "degraded"
            assert f"127.0.0.1:{port} can't be used" in service["reason"]


def test_the_usual_address_that_another_program_has_is_said_by_status_and_doctor(tmp_path: Path) -> None:
    words = 'no metrics: 127.0.0.1:9464 is in use by another program. Set metrics.bind to another address, or to ""'
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # another supervisor has it, which is just as good
            stack.enter_context(socket.create_server(("127.0.0.1", 9464)))
        home = stack.enter_context(a_home(tmp_path / "home"))
        asleep = {each["name"]: each for each in home.json("doctor")["checks"]}["metrics"]
        home.start_daemon()
        awake = {each["name"]: each for each in home.json("doctor")["checks"]}["metrics"]
        for check in (asleep, awake):
            assert check["ok"], "nobody has chosen the address"
            assert "127.0.0.1:9464 is in use by another program" in check["message"]
            assert "metrics.bind" in check["remedy"]
        shown = home.supervisor("status")
        assert shown.returncode == 0
        assert f"! {words}" in " ".join(shown.stdout.split())


def test_the_metrics_and_the_page_survive_a_ledger_that_cannot_be_read(tmp_path: Path) -> None:
    with a_served_home(tmp_path) as (home, port):
        home.start_daemon()
        with contextlib.closing(sqlite3.connect(home.state_dir / "ledger.db")) as connection:
            connection.execute("DROP TABLE approvals_t")
        status, text, _ = asked(port, "/metrics")
        assert status == 200, text
        assert "supervisor_ready 0.0\n" in text
        assert 'supervisor_worker_up{team="",worker="OrionMX"} 1.0\n' in text
        status, text, _ = asked(port, "/")
        assert (status, "is damaged" in text) == (200, True)
        assert asked(port, "/readyz")[0] == 503


@contextmanager
def half_requests(port: int, count: int) -> Iterator[None]:
    """Another program keeps connections open whose request never ends."""
    words = [sys.executable, "-c", HALF_REQUESTS, str(port), str(count)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == "open\n"
            yield
        finally:
            attacker.kill()


def descriptors(home: Home) -> int:
    return len(os.listdir(f"/proc/{home.daemon_pid}/fd"))


def test_half_requests_of_a_local_user_hold_up_nobody(tmp_path: Path) -> None:
    with a_served_home(tmp_path) as (home, port):
        home.start_daemon()
        before = descriptors(home)
        resource.prlimit(home.daemon_pid, resource.RLIMIT_NOFILE, (1024, 1024))
        with half_requests(port, 1084):
            for command in ("pause", "resume", "pause"):
                assert home.supervisor("status").returncode == 0
                assert home.supervisor("send", command, "--wait").returncode == 0
                assert asked(port, "/healthz")[:2] == (200, "ok\n")
            assert descriptors(home) < before + 250
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b"", "it's closed without a request"


def test_running_out_of_descriptors_is_logged_at_most_once_a_second(tmp_path: Path) -> None:
    with a_served_home(tmp_path) as (home, port), contextlib.ExitStack() as stack:
        home.start_daemon()
        assert asked(port, "/healthz")[0] == 200
        limits = resource.prlimit(home.daemon_pid, resource.RLIMIT_NOFILE)
        before, began = len(home.daemon_log()), time.monotonic()
        used = max(int(name) for name in os.listdir(f"/proc/{home.daemon_pid}/fd"))
        resource.prlimit(home.daemon_pid, resource.RLIMIT_NOFILE, (used + 1, limits[1]))
        stack.enter_context(half_requests(port, 40))
        wait_until(lambda: "accept" in home.daemon_log()[before:], SECONDS, "the daemon noticed")
        time.sleep(2)
        lines = [line for line in home.daemon_log()[before:].splitlines() if "accept" in line]
        assert len(lines) <= time.monotonic() - began + 1, lines
        resource.prlimit(home.daemon_pid, resource.RLIMIT_NOFILE, limits)
        assert asked(port, "/healthz")[:2] == (200, "ok\n")
