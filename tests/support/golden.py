"""Golden files of messages: what people see, as somebody last looked at it and found it good.

A change that is meant: `UPDATE_GOLDEN=1` before the tests, then look at the difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slack_playground.blockkit.messages import check_message
from slack_playground.blockkit.views import check_view

FOLDER = Path(__file__).parents[1] / "unit" / "golden"


def are_as_last_seen(
    kind: str, cases: Mapping[str, Mapping[str, Any] | Callable[[], Mapping[str, Any] | None]]
) -> None:
    """Slack takes each message or view, it is the one in its golden file, and no file is left over."""
    for name, case in cases.items():
        shown = case() if callable(case) else case
        assert shown is not None, name
        assert (check_view(shown) if "type" in shown else check_message(shown, update=True)) == [], name
        path = FOLDER / f"{kind}_{name.replace(' ', '_')}.json"
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
        assert shown == json.loads(path.read_text()), name
    files = {path.stem.removeprefix(f"{kind}_") for path in FOLDER.glob(f"{kind}_*.json")}
    assert files == {name.replace(" ", "_") for name in cases}
