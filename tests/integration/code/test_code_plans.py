"""What a plan reads of a history: what it needs, and no more of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from bot.views.cards.preview import preview_blocks
from supervisor_core.code.change_plan import preview_text
from supervisor_core.code.planning import find_commit, recent_commits
from tests.support.code.code_homes import a_code_host, a_code_place
from tests.support.code.repositories import origin_and_checkout


def test_commits_are_listed_and_found_as_far_as_a_rollback_can_revert_them(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path / "code")
    hashes = [line.split()[0] for line in made.checkout.git("log", "--format=%H").splitlines()]
    assert len(hashes) == 5
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        host, worker = place.host, ["OrionMX"]
        assert [each.hash for each in recent_commits(host, worker, 10)] == hashes[:4]
        assert [each.hash for each in recent_commits(host, worker, 2)] == hashes[:2]
        for name, place_in_line in ((hashes[0], 1), (hashes[1][:7].upper(), 2), (hashes[4][:8], 0)):
            found = find_commit(host, worker, name, 10)
            assert found is not None
            assert (found[0].hash.startswith(name.lower()), found[1]) == (True, place_in_line)
        made.checkout.git("branch", "deadbeef")
        assert find_commit(host, worker, "deadbeef", 10) is None, "a branch of that name isn't a commit's hash"
        assert find_commit(host, worker, "f" * 40, 10) is None


def test_several_checkouts_have_no_commits_in_common(tmp_path: Path) -> None:
    here, there = origin_and_checkout(tmp_path / "here").checkout, origin_and_checkout(tmp_path / "there").checkout
    folders = {"OrionMX": here.folder, "South": there.folder}
    with a_code_place(tmp_path / "place", here.folder, workers=("OrionMX", "South"), checkouts=folders) as place:
        assert recent_commits(place.host, ["OrionMX", "South"], 10) == []
        assert find_commit(place.host, ["OrionMX", "South"], here.head, 10) is None
        assert len(recent_commits(place.host, ["South"], 10)) == 4


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
