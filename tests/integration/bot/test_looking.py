"""The same looks from the shell, and what an answer in Slack comes to when it is dealt with twice."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.access.rules import Person
from bot.answers import AuditAnswer
from bot.inbound.dispatcher import Response
from bot.requests.commands import Query, QueryHandler
from bot.requests.request import Request
from supervisor_core.cli import main
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.grammar import parse
from supervisor_core.config.load import SupervisorConfig, grammar_context, load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.processes.output.files import output_path
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.store import Ledger

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
SECRET = "hunter2-hunter2"
Run = Callable[..., Any]


@pytest.fixture
def config(tmp_path: Path) -> SupervisorConfig:
    (tmp_path / "var" / "output").mkdir(parents=True)
    worker = {"command": ["{python}", "-V"], "env": {"API_PASSWORD": SECRET}}
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {"North": {**worker, "team": "poles"}, "South": {**worker, "team": "poles"}, "Tropic": worker},
        "teams": {"poles": {"objective": "keep cold"}},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    return load_supervisor_config(tmp_path / "config.yaml", environ={})


@pytest.fixture
def ledger(config: SupervisorConfig) -> Iterator[Ledger]:
    """With a row for each of four workers, of whom one is not configured any more."""
    with opened_ledger(config) as made:
        for worker in ("North", "South", "Tropic", "Gone"):
            details = {"error": f"it said {SECRET}"}
            entry = AuditEntry("cli:anna", "PAUSE", worker, "failure", "anna - x", f"task_{worker}", details=details)
            made.write(lambda connection, entry=entry: chain.append(connection, "TestHost", entry, NOW))  # type: ignore[misc]
        yield made


@pytest.fixture
def run(config: SupervisorConfig, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command of the shell: its exit code and what it printed."""

    def ran(*words: str) -> tuple[int, str]:
        code = main([words[0], "--config", str(config.path), *words[1:]])
        return code, capsys.readouterr().out

    return ran


def targets(printed: str) -> list[str]:
    return [row["target_id"] for row in json.loads(printed)]


@pytest.mark.usefixtures("ledger")
def test_the_trail_is_asked_for_a_worker_that_is_gone_a_team_a_pattern_and_all(run: Run) -> None:
    for word, found in (
        ("Gone", ["Gone"]),
        ("team:poles", ["South", "North"]),
        ("*o*th", ["South", "North"]),
        ("all", ["Tropic", "South", "North"]),
    ):
        code, printed = run("audit", "--worker", word, "--json")
        assert (code, targets(printed)) == (0, found)
    assert targets(run("send", "audit team:poles by anna command pause since 2026-02-05 1", "--json")[1]) == ["South"]
    assert run("send", "approvals")[1] == "Nothing is waiting for approval.\n"
    assert run("send", "audit command nothing")[0] == 2


@pytest.mark.usefixtures("ledger")
def test_what_workers_wrote_and_teams_are_shown_by_send(config: SupervisorConfig, run: Run) -> None:
    output_path(config.state_dir, "North").write_text(f"one\ntwo {SECRET}\n")
    assert run("send", "logs North 1") == (0, "two ****\n")
    code, printed = run("send", "logs team:poles")
    assert code == 0
    assert printed.startswith("==> North: ")
    assert "South hasn't written anything yet" in printed
    assert "poles" in run("send", "teams")[1]
    (team,) = json.loads(run("send", "teams", "--json")[1])
    assert [(each["agent_id"], each["role"], each["state"]) for each in team["members"]] == [
        ("North", "MEMBER", "stopped"),
        ("South", "MEMBER", "stopped"),
    ]


def question(config: SupervisorConfig, text: str, page: str = "", **more: Any) -> Query:
    asked = Request(text, "U0OPER", "T0TEAM", "C0OPS", NOW, "key", page=page, **more)
    return Query(asked, parse(text, grammar_context(config)), Person("U0OPER", "T0TEAM"))


def answered(look: QueryHandler, asked: Query) -> Response:
    async def ask() -> Response:
        return await look(asked)

    return asyncio.run(ask())


def test_an_answer_that_is_dealt_with_twice_is_the_same_rows(config: SupervisorConfig, ledger: Ledger) -> None:
    look = AuditAnswer(config, ledger, lambda *_: "")
    for page in ("", "csv", "older:4:TestHost"):
        first, second = [answered(look, question(config, "audit", page, response_url="http://x/")) for _ in range(2)]
        assert first == second
        assert len({message.subject for message in first.messages}) == len(first.messages)
    assert SECRET not in str(first.messages)


def test_a_secret_with_a_quote_in_it_is_no_more_shown_in_the_file(config: SupervisorConfig, ledger: Ledger) -> None:
    secret = 'hun"ter2, "of anna'
    document = yaml.safe_load(config.path.read_text())
    document["workers"]["North"]["env"]["API_PASSWORD"] = secret
    config.path.write_text(yaml.safe_dump(document))
    config = load_supervisor_config(config.path, environ={})
    entry = AuditEntry("cli:anna", "PAUSE", "North", "failure", "anna - x", "task_q", details={"error": secret})
    ledger.write(lambda connection: chain.append(connection, "TestHost", entry, NOW))
    _, file = answered(AuditAnswer(config, ledger, lambda *_: ""), question(config, "audit North", "csv")).messages
    assert file.payload is not None
    table = list(csv.DictReader(io.StringIO(file.payload["content"])))
    assert [json.loads(row["details_json"])["error"] for row in table] == ["****", f"it said {SECRET}"]


def test_what_a_schedule_tells_a_channel_of_the_trail_calls_nobody(config: SupervisorConfig, ledger: Ledger) -> None:
    entry = AuditEntry("slack:T0TEAM/U0BOB", "PAUSE", "North", label="Bob - x", task_id="task_b")
    ledger.write(lambda connection: chain.append(connection, "TestHost", entry, NOW))
    look = AuditAnswer(config, ledger, lambda *_: "")
    (alone,) = answered(look, question(config, "audit by <@U0BOB>", direct=True)).messages
    scheduled = replace(question(config, "audit by <@U0BOB>", direct=True), by=Issuer("schedule:daily", "daily"))
    (told,) = answered(look, scheduled).messages
    assert "<@U0BOB>" in str(alone.payload)
    assert "<@" not in str(told.payload)
    assert "Bob" in str(told.payload)
