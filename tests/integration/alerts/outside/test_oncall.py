"""Who is on call, asked of real programs and a real web server: cached, in time, bounded, with a fallback."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core.alerts.oncall import FAILED_SECONDS, OnCallAnswer, OnCallDirectory, on_call_sources
from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.sections import as_plain
from tests.support.processes.probe_servers import Answering, web_server


@pytest.fixture
def server() -> Iterator[Answering]:
    with web_server() as made:
        made.body = b'["anna@example.com", "U0BEA"]'
        yield made


def configured(folder: Path, source: dict[str, Any], **environ: str) -> SupervisorConfig:
    """The same source for an escalation and for approvals."""
    document = {
        "alerts": {"escalation": [{"after_minutes": 5, "to": ["C0OPS", {"oncall": source}]}]},
        "slack": {"access": {"approvers": ["U0CARL", {"oncall": source}]}},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    return load_supervisor_config(folder / "config.yaml", environ=environ)


class Asking:
    """A directory with a clock that stands still until it is moved."""

    def __init__(self, folder: Path, source: dict[str, Any]) -> None:
        self.config = configured(folder, source)
        self.now = 1000.0
        self.directory = OnCallDirectory(lambda: self.config, lambda: self.now)
        ((self.source, _), *_) = on_call_sources(self.config)

    def __call__(self) -> OnCallAnswer:
        return self.directory.ask(self.source)


def test_an_answer_of_a_server_is_remembered_for_as_long_as_configured(tmp_path: Path, server: Answering) -> None:
    ask = Asking(tmp_path, {"url": server.url, "secret": "hunter2", "cache_minutes": 2})
    assert (ask().people, ask().problem) == (("anna@example.com", "U0BEA"), "")
    assert server.asked == ["/health"]
    assert server.headers[0]["Authorization"] == "Bearer hunter2"
    server.body = b"U0DORA\n"
    ask.now += 119
    assert ask().people == ("anna@example.com", "U0BEA")
    ask.now += 2
    assert ask().people == ("U0DORA",)


FAILURES: dict[str, dict[str, Any]] = {
    "responded 500 Internal Server Error": {"status": 500},
    "responded 404 Not Found": {"status": 404},
    "responded 302 Found": {"status": 302, "location": "https://evil.example.org/"},
    "answered with something else": {"body": b"<html>Log in</html>"},
    "names nobody": {"body": b"[]"},
    "answered with too much text": {"body": b"U0BEA\n" * 20_000},
}


@pytest.mark.parametrize("words", FAILURES)
def test_an_answer_that_can_not_be_used_gives_the_fallback_and_is_asked_again_soon(
    tmp_path: Path, server: Answering, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    ask = Asking(tmp_path, {"url": f"{server.url}?token=hunter2", "fallback": ["U0EVA"]})
    good = server.body
    for name, value in FAILURES[words].items():
        setattr(server, name, value)
    answer = ask()
    assert answer.people == ("U0EVA",)
    assert words in answer.problem
    server.status, server.body, server.location = 200, good, ""
    assert ask() == answer
    ask.now += FAILED_SECONDS + 1
    assert ask().people == ("anna@example.com", "U0BEA")
    assert "hunter2" not in f"{caplog.text} {answer.in_words()} {answer.as_json()}"


def test_a_program_answers_without_a_shell_and_without_our_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "hunter2")
    script = tmp_path / "on-call"
    script.write_text('#!/bin/sh\n[ -z "$SLACK_BOT_TOKEN" ] && [ "$1" = "a; echo U0EVIL" ] && echo U0BEA\n')
    script.chmod(0o700)
    assert Asking(tmp_path, {"command": ["./on-call", "a; echo U0EVIL"]})().people == ("U0BEA",)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["sleep", "60"], "didn't"),
        (["false"], "exited (code 1)"),
        (["./nothing"], "can't be started"),
        (["sh", "-c", "yes U0BEA | head -c 1000000"], "too much text"),
        (["sh", "-c", "echo U0BEA; exit 3"], "exited (code 3)"),
    ],
)
def test_a_program_that_hangs_fails_or_floods_gives_the_fallback(
    tmp_path: Path, command: list[str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    begun = time.monotonic()
    answer = Asking(tmp_path, {"command": command, "timeout_seconds": 0.5, "fallback": ["U0EVA"]})()
    assert time.monotonic() - begun < 5
    assert answer.people == ("U0EVA",)
    assert words in answer.problem
    assert answer.problem in caplog.text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, "oncall must have either url or command"),
        ({"url": "http://h/", "command": ["x"]}, "oncall must have either url or command"),
        ({"url": "ftp://hunter2"}, "oncall.url must be a URL"),
        ({"command": "on-call hunter2"}, "oncall.command must be a list"),
        ({"command": ["x"], "secret": "hunter2"}, "oncall.secret is only for url"),
        ({"url": "http://h/", "timeout_seconds": 60}, "oncall.timeout_seconds must be a number"),
        ({"url": "http://h/", "fallback": ["S0GROUP"]}, "oncall.fallback[0] must be a user id"),
        ({"url": "http://h/", "fallbacks": []}, "oncall.fallbacks isn't a setting; did you mean fallback?"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_line(tmp_path: Path, source: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, source)
    first, second = sorted(str(caught.value).splitlines(), key=lambda line: "alerts" not in line)
    assert "alerts.escalation[0].to[1]." + words in first
    assert "slack.access.approvers[1]." + words in second
    assert "config.yaml line " in first
    assert "hunter2" not in f"{first} {second}"


def test_the_secret_of_a_source_is_one_of_the_configuration_and_a_change_of_it_is_seen(tmp_path: Path) -> None:
    config = configured(tmp_path, {"url": "https://h/hunter2", "secret": "${TOKEN}"}, TOKEN="hunter3")
    assert {"https://h/hunter2", "hunter3"} <= config.secrets
    assert "hunter" not in f"{config!r} {config.slack} {as_plain(config)}"
    other = configured(tmp_path, {"url": "https://h/hunter2", "secret": "${TOKEN}"}, TOKEN="hunter4")
    assert other.slack.access != config.slack.access
