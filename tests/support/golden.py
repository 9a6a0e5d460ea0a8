"""Golden files of messages: what people see, as somebody last looked at it and found it good.

A change that is meant: `UPDATE_GOLDEN=1` before the tests, then look at the difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from slack_playground.blockkit.messages import check_message

FOLDER = Path(__file__).parents[1] / "unit" / "golden"


def is_as_last_seen(kind: str, name: str, message: Mapping[str, Any]) -> None:
    """Slack takes this message, and it is the one in its golden file."""
    assert check_message(message, update=True) == []
    path = FOLDER / f"{kind}_{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(message, indent=2, ensure_ascii=False) + "\n")
    assert message == json.loads(path.read_text())


def every_file_has_its_case(kind: str, cases: Collection[str]) -> None:
    """No golden file is left over from a case that is gone."""
    assert {path.stem.removeprefix(f"{kind}_") for path in FOLDER.glob(f"{kind}_*.json")} == set(cases)
