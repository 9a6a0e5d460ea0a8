"""`supervisor doctor`: whether everything is in its place, and what to do where it is not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib import import_module

from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.config import load_supervisor_config
from supervisor_core.runtime.doctor import core_checks
from supervisor_core.runtime.doctor.checks import Check

INDENT = " " * 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--json", action="store_true", help="for programs")


def run(options: argparse.Namespace) -> int:
    """Look at everything. A configuration that can't be read is an error like in every other command.

    The bot is loaded by name: the core knows none.
    """
    config = load_supervisor_config(options.config)
    checks = [*core_checks(config), *import_module("bot.doctor").slack_checks(config)]
    well = all(check.ok for check in checks)
    if options.json:
        print(json.dumps({"ok": well, "checks": [check.as_json() for check in checks]}, indent=2))
    else:
        print(_for_people(checks))
    return SUCCESS if well else FAILURE


def _for_people(checks: Sequence[Check]) -> str:
    lines = []
    for check in checks:
        mark = "✗ failed " if not check.ok else "! warning" if check.remedy else "✓ ok     "
        lines.append(f"{mark} {check.name}: {check.message}")
        if check.remedy:
            lines.append(f"{INDENT}→ {check.remedy}")
    failed = sum(not check.ok for check in checks)
    warned = sum(check.ok and bool(check.remedy) for check in checks)
    well = f"Nothing failed; {warned} to be looked at." if warned else "Everything is in its place."
    lines += ["", f"{failed} of {len(checks)} checks failed." if failed else well]
    return "\n".join(lines)
