"""The runbook has a procedure for each flag, with a label that the supervisor takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from supervisor_core.commands.flags import parse_name
from supervisor_core.commands.labels import validate_label

PAGE = Path(__file__).parents[3] / "docs" / "runbook" / "each-flag.md"
HANDLERS = {
    "pause",
    "resume",
    "restart_watcher",
    "update_code",
    "update_code_deps",
    "rollback_code",
    "undo_code",
    "diagnostics",
    "verify_db",
}


def test_each_flag_has_a_procedure_with_a_label() -> None:
    flags = [
        json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert {flag["handler"] for flag in flags} == HANDLERS
    for flag in flags:
        assert flag["label"]
        assert validate_label(flag["label"]) == (True, "")
        assert parse_name(f"supervisor_{flag['handler']}_OrionMX_{flag['task_id']}.flag") is not None
