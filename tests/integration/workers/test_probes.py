"""One question to a worker: real servers on loopback and real programs, well and in every kind of trouble."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core.common.service import Blocking
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.workers import probes
from supervisor_core.workers.probes import ProbeAnswer
from tests.support.processes.probe_servers import Answering, closed_port, drips, is_silent, raw_server, says, web_server
from tests.support.waiting import wait_until

SECRET = "correct-horse-battery"
SOON = 0.2
"""Seconds in which a server that says nothing is given up. No test waits for one longer."""


@pytest.fixture
def web() -> Iterator[Answering]:
    with web_server() as served:
        yield served


def configured(folder: Path, probe: Mapping[str, Any], **worker: Any) -> tuple[SupervisorConfig, WorkerSettings]:
    section = {"command": ["{python}", "-V"], "env": {"API_KEY": SECRET}, "probes": [probe], **worker}
    document = {
        "supervisor": {"state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {"OrionMX": section},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    config = load_supervisor_config(folder / "config.yaml")
    return config, config.worker("OrionMX")


def ask(folder: Path, probe: Mapping[str, Any], **worker: Any) -> ProbeAnswer:
    config, found = configured(folder, probe, **worker)
    return asyncio.run(probes.ask(config, found, found.probes[0], Blocking(4)), debug=True)


@pytest.mark.parametrize(
    ("status", "ok"), [(200, True), (204, True), (302, True), (399, True), (400, False), (404, False), (503, False)]
)
def test_an_answer_of_200_to_399_is_good(tmp_path: Path, web: Answering, status: int, ok: bool) -> None:
    web.status, web.body = status, b""
    answer = ask(tmp_path, {"http": web.url})
    assert answer.ok is ok
    assert f"responded {status}" in answer.message


def test_a_redirect_is_not_followed(tmp_path: Path, web: Answering) -> None:
    with web_server() as elsewhere:
        web.status, web.location = 301, elsewhere.url
        assert ask(tmp_path, {"http": web.url}) == ProbeAnswer(True, "responded 301 Moved Permanently")
        assert (web.asked, elsewhere.asked) == (["/health"], [])


def test_the_request_is_what_the_address_says(tmp_path: Path, web: Answering) -> None:
    url = f"http://anna:p%40ss@127.0.0.1:{web.port}/a%20b/ü?q=1&r=ö#part"
    assert ask(tmp_path, {"http": url}).ok
    assert web.asked == ["/a%20b/%C3%BC?q=1&r=%C3%B6"]
    assert web.headers[0]["Authorization"] == "Basic YW5uYTpwQHNz"
    assert web.headers[0]["Host"] == f"127.0.0.1:{web.port}"


@pytest.mark.parametrize("say", [is_silent, drips(b"HTTP/1.1 200 OK\r\nX: ")], ids=["silent", "in the head"])
def test_a_server_that_takes_its_time_gets_no_more_than_the_timeout(tmp_path: Path, say: Any) -> None:
    with raw_server(say) as port:
        answer = ask(tmp_path, {"http": f"http://127.0.0.1:{port}/", "timeout": SOON})
    assert answer == ProbeAnswer(False, f"no response within {SOON:g} s")


def test_a_body_without_an_end_does_not_matter(tmp_path: Path) -> None:
    with raw_server(drips(b"HTTP/1.0 200 Fine\r\n\r\n")) as port:
        answer = ask(tmp_path, {"http": f"http://127.0.0.1:{port}/", "timeout": SOON})
    assert answer == ProbeAnswer(True, "responded 200 Fine")


def test_whatever_comes_back_is_told_in_a_line(tmp_path: Path) -> None:
    invalid = "the response isn't HTTP"
    for response, ok, words in (
        (b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", True, "responded 200 OK"),
        (b"HTTP/1.1 200\r\n\r\n", True, "responded 200"),
        (b"", False, "closed the connection without a response"),
        (b"HTTP/1.1 200 OK\r\nX", False, "closed the connection without a response"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False, invalid),
        (b"\x16" * 100_000, False, invalid),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, False, invalid),
        (b"HTTP/1.1 500 \x1b[31m\xff\r\n\r\n", False, r"responded 500 \x1b[31m\udcff"),
    ):
        with raw_server(says(response)) as port:
            assert ask(tmp_path, {"http": f"http://127.0.0.1:{port}/"}) == ProbeAnswer(ok, words)


def test_a_port_that_nobody_listens_on_refuses(tmp_path: Path) -> None:
    with closed_port() as port:
        for probe in ({"tcp": f"127.0.0.1:{port}"}, {"http": f"http://127.0.0.1:{port}/"}):
            assert ask(tmp_path, probe) == ProbeAnswer(False, "connection failed: Connection refused")


@pytest.mark.parametrize("probe", [{"tcp": "nowhere.invalid:80"}, {"http": "http://nowhere.invalid/"}], ids=str)
def test_a_name_that_does_not_exist_is_said(tmp_path: Path, probe: Mapping[str, Any]) -> None:
    answer = ask(tmp_path, {**probe, "timeout": 60})
    assert not answer.ok
    assert answer.message.startswith("nowhere.invalid can't be resolved: ")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "2"]
    subprocess.run([*words, "-keyout", path, "-out", path.with_name("cert")], check=True, capture_output=True)
    with path.open("ab") as file:
        file.write(path.with_name("cert").read_bytes())
    return path


def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def say(connection: Any, _: Any) -> None:
        context.wrap_socket(connection, server_side=True).close()

    with raw_server(say) as port:
        answer = ask(tmp_path, {"http": f"https://127.0.0.1:{port}/"})
    assert not answer.ok
    assert answer.message.startswith(
        "certificate rejected: self-signed certificate; put the issuer's certificate (PEM)"
    )
    assert answer.message.endswith("name it in SSL_CERT_FILE")


def test_a_server_without_tls_and_one_that_hangs_in_its_handshake_are_told_apart(tmp_path: Path) -> None:
    with raw_server(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        answer = ask(tmp_path, {"http": f"https://127.0.0.1:{port}/"})
    assert "TLS failed" in answer.message
    with raw_server(is_silent) as port:
        answer = ask(tmp_path, {"http": f"https://127.0.0.1:{port}/", "timeout": SOON})
    assert answer.message == f"no response within {SOON:g} s"


def program(code: str, *words: str) -> dict[str, Any]:
    return {"exec": ["{python}", "-c", code.replace("{", "{{").replace("}", "}}"), *words]}


def test_a_program_is_run_as_the_worker_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS_ALONE", "secret")
    (tmp_path / "work").mkdir()
    told = tmp_path / "told"
    code = f"import os, sys; open({str(told)!r}, 'w').write(repr((os.getcwd(), dict(os.environ), sys.argv[1:])))"
    answer = ask(tmp_path, program(code, "{worker_id}", "{config}", "{{}}"), cwd="work")
    assert answer == ProbeAnswer(True, "exited (code 0)")
    where, environment, words = eval(told.read_text())
    assert (where, words) == (str(tmp_path / "work"), ["OrionMX", str(tmp_path / "config.yaml"), "{}"])
    assert environment["API_KEY"] == SECRET
    assert "OURS_ALONE" not in environment


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; print('a', file=sys.stderr); sys.exit('queue is stuck')", "exited (code 1): queue is stuck"),
        ("print('queue is stuck'); raise SystemExit(3)", "exited (code 3): queue is stuck"),
        ("raise SystemExit(3)", "exited (code 3)"),
        ("import os; os.kill(os.getpid(), 9)", "crashed (SIGKILL)"),
        ("import os, sys; sys.exit('key ' + os.environ['API_KEY'])", "exited (code 1): key ****"),
    ],
)
def test_a_program_that_ends_otherwise_is_told_with_its_last_words(tmp_path: Path, code: str, words: str) -> None:
    answer = ask(tmp_path, {**program(code), "timeout": 60})
    assert not answer.ok
    assert answer.message.endswith(words)


def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    shell = f"sleep 600 & echo $! > {pids}; trap '' TERM; wait; sleep 600"
    answer = ask(tmp_path, {"exec": ["sh", "-c", shell], "timeout": SOON})
    assert answer == ProbeAnswer(False, f"timed out after {SOON:g} s")
    pid = pids.read_text().strip()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text())


@pytest.mark.parametrize(
    ("worker", "words"),
    [({}, "The program no-such-program isn't installed."), ({"cwd": "nowhere"}, "no such folder.")],
)
def test_a_program_that_can_not_be_run_is_a_failure_in_words(
    tmp_path: Path, worker: dict[str, Any], words: str
) -> None:
    answer = ask(tmp_path, {"exec": ["no-such-program"]}, **worker)
    assert not answer.ok
    assert words in answer.message


def test_secrets_are_in_no_words(tmp_path: Path, web: Answering) -> None:
    with raw_server(says(f"HTTP/1.1 500 {SECRET}\r\n\r\n".encode())) as port:
        url = f"http://anna:{SECRET}@127.0.0.1:{port}/{SECRET}?{SECRET}"
        assert ask(tmp_path, {"http": url}).message == "responded 500 ****"
        config, worker = configured(tmp_path, {"http": url})
    assert probes.name_of(config, worker, worker.probes[0]) == f"http://127.0.0.1:{port}/…"


def test_the_event_loop_goes_on_while_a_program_and_a_server_hang(tmp_path: Path) -> None:
    async def story(port: int) -> int:
        blocking, turns = Blocking(4), 0
        for probe in (program("import time; time.sleep(600)"), {"http": f"http://127.0.0.1:{port}/"}):
            config, worker = configured(tmp_path, {**probe, "timeout": SOON})
            asked = asyncio.create_task(probes.ask(config, worker, worker.probes[0], blocking))
            before = turns
            while not asked.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert not asked.result().ok
            assert turns - before > 2, "the loop was free meanwhile"
        return turns

    with raw_server(is_silent) as port:
        assert asyncio.run(story(port)) > 0
