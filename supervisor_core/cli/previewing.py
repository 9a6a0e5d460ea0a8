"""`supervisor send 'rollback 3' --preview`: what a command on code would do, with nothing of it done."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.catalog import CATALOG
from supervisor_core.domain.code_preview import in_words
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import Tier
from supervisor_core.domain.errors import UsageError
from supervisor_core.handlers.previews import preview
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.host import opened_ledger


def check_has_one(command: Command, option: str) -> None:
    """`UsageError` for a command that has no preview."""
    with_one = [definition.name for definition in CATALOG.values() if definition.tier is Tier.CODE]
    if command.name not in with_one:
        names = f"{', '.join(with_one[:-1])} and {with_one[-1]}"
        raise UsageError(f"{command.name} has no preview, which {option} is about; {names} have one.")


def show(config: SupervisorConfig, command: Command, *, as_json: bool) -> int:
    """Print it; 1 where something speaks against the command."""
    check_has_one(command, "--preview")
    with opened_ledger(config) as ledger:
        seen = preview(replace(open_doors(config), ledger=ledger), command)
    ok = all(each.ok for each in seen)
    state = ",".join(each.state for each in seen if each.state)
    if as_json:
        document = {
            "command": command.name,
            "workers": list(command.workers),
            "ok": ok,
            "state": state or None,
            "previews": [each.as_json() for each in seen],
        }
        print(json.dumps(document))
        return 0 if ok else 1
    now = datetime.now(UTC)
    print("\n\n".join("\n".join(in_words(each, now)) for each in seen))
    if ok and any(each.plan and not each.plan.does_nothing for each in seen):
        print(f"\nTo do exactly this, and nothing if it is not so any more: --if-state {state}")
    return 0 if ok else 1
