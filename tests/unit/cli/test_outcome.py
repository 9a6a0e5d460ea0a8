"""The printed answer to a command."""

from __future__ import annotations

import pytest

from supervisor_core.cli.send import report_outcome
from supervisor_core.commands.command import Command


def said(capsys: pytest.CaptureFixture[str], worker_id: str) -> str:
    result = {
        "worker_id": worker_id,
        "handler": "restart_watcher",
        "success": True,
        "error": None,
        "details": {"message": "Restarted fetcher"},
    }
    command = Command.for_worker("restart", worker_id, {"task_id": "task_1"})
    report_outcome(command, "", [result], [], as_json=False)
    return capsys.readouterr().out.splitlines()[0]


def test_a_worker_of_another_host_is_named_by_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    """Its host calls it by its own name."""
    assert said(capsys, "web-1/fetcher") == "ok: web-1/fetcher: Restarted fetcher"
    assert said(capsys, "fetcher") == "ok: Restarted fetcher"
