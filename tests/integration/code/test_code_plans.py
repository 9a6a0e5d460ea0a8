"""What a plan reads of a history: what it needs, and no more of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from bot.views.cards.preview import preview_blocks
from supervisor_core.code.change_plan import preview_text
from tests.support.code.code_homes import a_code_host
from tests.support.code.repositories import origin_and_checkout


def test_a_rollback_of_an_earlier_rollback_says_so_before_it_is_requested(tmp_path: Path) -> None:
    with a_code_host(tmp_path / "host", origin_and_checkout(tmp_path / "code").checkout.folder) as place:
        assert "comes back" not in "\n".join(preview_text(place.preview("rollback 1"), datetime.now(UTC)))
        done = place.did("rollback 1")
        seen = place.preview("rollback 2")
        first = "\n".join(preview_text(seen, datetime.now(UTC))[:4])
        assert "Reverts an earlier rollback" in first
        document = seen.as_json()
        assert [commit["hash"] for commit in document["own_reverts"]] == [done.details["after"]]
        assert "Reverts an earlier rollback" in json.dumps(preview_blocks([document]))
