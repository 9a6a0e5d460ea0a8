"""What a shell says of an approval: names that others chose can't do anything to the terminal."""

from __future__ import annotations

from dataclasses import replace

from supervisor_core.cli.approvals import describe_approval
from supervisor_core.commands.command import Issuer
from supervisor_core.intake.approvals.rules import ApprovalState, Choice, Vote
from tests.unit.intake.test_approvals import NOW, an_approval

EVE = Issuer("slack:T0/U0EVE", "eve\x1b[2J\x07")


def test_a_name_with_control_characters_is_shown_and_not_obeyed() -> None:
    denied = replace(an_approval(ApprovalState.DENIED), reason="no\x1b[2J")
    words = describe_approval(denied, [Vote(EVE, Choice.DENY, NOW)])
    assert words.isprintable()
    assert words.startswith("Denied by eve")
