"""The card of a command that waits for people: golden files of each state, each preview and each place.

Intended change: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_approval_cards.py`, then look at the difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bot.views.answers.alerts import pending_approvals
from bot.views.blocks import blocks_of
from bot.views.cards.approval import approval_card
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Issuer
from supervisor_core.intake.approvals.rules import ApprovalState
from tests.support.golden import are_as_last_seen
from tests.support.intake.approval_states import (
    LINK,
    OPERATOR,
    RESTART,
    RESTARTS,
    ROLLBACK,
    UNDO,
    UPDATE,
    UPDATE_DEPS,
    approval,
    asking,
    no,
    seen,
    yes,
)

S = ApprovalState
HOSTILE = "<!channel> & <@U0OPER> `rm -rf` *bold* https://evil.example"

MOVED = "/srv/watcher was at aaaaaaa and is now at 1111111; OrionMX is now paused. Nothing was done."
NIGHTLY = Issuer("schedule:nightly", "nightly", OPERATOR.id)
FOUR = replace(ROLLBACK, target="all", workers=("OrionMX", "Second", "Third", "Fourth"))

ENDS: Mapping[ApprovalState, str] = {
    S.APPROVED: "Slack can't be asked at the moment who may approve.",
    S.FAILED: "It failed on OrionMX.",
    S.DENIED: "not before the backup",
    S.CANCELLED: "By operator.",
    S.EXPIRED: "Nobody decided within 15 minutes.",
    S.STALE: MOVED,
}

CARDS: Mapping[str, Mapping[str, Any]] = {
    **{
        str(state): approval_card(
            asking(
                approval(state, reason=ENDS.get(state, "")),
                *([] if state in (S.PENDING, S.EXPIRED) else [yes()]),
                *([no(reason="not before the backup")] if state is S.DENIED else []),
            )
        )
        for state in S
    },
    "one_of_three_votes": approval_card(asking(approval(needed=3), yes())),
    "several_workers": approval_card(asking(approval(command=FOUR, previews=seen("rollback_shared")))),
    "no_code": approval_card(asking(approval(command=RESTART, previews=RESTARTS))),
    "paused": approval_card(asking(approval(previews=seen("rollback_paused")))),
    "reset": approval_card(asking(approval(command=UPDATE, previews=seen("update_reset")))),
    "conflict": approval_card(asking(approval(command=UPDATE, previews=seen("conflict")))),
    "packages": approval_card(asking(approval(command=UPDATE_DEPS, previews=seen("update_deps")))),
    "undo": approval_card(asking(approval(command=UNDO, previews=seen("undo")))),
    "very_long": approval_card(asking(approval(command=UPDATE, previews=seen("update_many")))),
    "several_checkouts": approval_card(
        asking(
            approval(
                command=FOUR, previews=[{**each, "checkout": f"/srv/{n}"} for n in "abcde" for each in seen("rollback")]
            )
        )
    ),
    "in_a_direct_message": approval_card(asking(replace(approval(), card={"channel": "D0OPER", "thread_ts": None}))),
    "of_a_direct_message": approval_card(asking(replace(approval(), card={"channel": "D0OPER"}), link=LINK), asks=True),
    "by_a_schedule": approval_card(asking(approval(command=replace(UPDATE, issuer=NIGHTLY)))),
    "asked_elsewhere": approval_card(asking(approval(), elsewhere="C0APPROVE", link=LINK)),
    "question": approval_card(asking(approval(), link=LINK), asks=True),
    "question_decided": approval_card(asking(approval(S.DONE), yes(), link=LINK), asks=True),
    "hostile": approval_card(
        asking(
            approval(
                S.DENIED,
                replace(UPDATE, issuer=Issuer("file:<!here>", HOSTILE)),
                seen("update_hostile"),
                reason=HOSTILE,
            ),
            yes(Issuer("cli:<!everyone>", HOSTILE)),
            no(reason=HOSTILE),
        )
    ),
    "hostile_pending": approval_card(
        asking(approval(command=replace(UPDATE, issuer=Issuer("file:a", HOSTILE)), previews=seen("update_hostile")))
    ),
}

LISTS: Mapping[str, Mapping[str, Any]] = {
    "nothing": pending_approvals([], "n1"),
    "one": pending_approvals([asking(approval(), link=LINK)], "n1"),
    "several": pending_approvals(
        [
            asking(approval(needed=2), yes()),
            asking(replace(approval(S.APPROVED, UPDATE, seen("update_merge")), approval_id="b7m2p9qx"), yes()),
            asking(replace(approval(command=RESTART, previews=RESTARTS), approval_id="c7m2p9qx")),
        ],
        "n1",
    ),
}


def buttons(message: Mapping[str, Any]) -> list[str]:
    rows = [block["elements"] for block in blocks_of(message) if block["type"] == "actions"]
    return [button["text"]["text"] for row in rows for button in row]


@pytest.mark.parametrize("number", [11, 500])
def test_of_many_that_wait_the_oldest_have_buttons_and_the_rest_is_on_further_pages(number: int) -> None:
    found = [asking(replace(approval(), approval_id=f"a{each:07}")) for each in range(number)]
    made, last = pending_approvals(found, "nonce"), pending_approvals(found, "nonce", 99)
    assert check_message(made, update=True) == check_message(last, update=True) == []
    assert len(buttons(made)) == 30 + 1
    assert buttons(made)[-1] == "Next page"
    assert f"a{number - 1:07}" in json.dumps(last)
    assert buttons(last)[-1] == "Previous page"


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("approval", CARDS)
    are_as_last_seen("waiting", LISTS)
