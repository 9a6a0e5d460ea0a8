"""Subjects of the fleet: each names one host, and a name can't reach beyond its word."""

from __future__ import annotations

import pytest

from supervisor_core.common.errors import UsageError
from supervisor_core.fleet.transport import subjects


@pytest.mark.parametrize("name", ["", "*", ">", "a.b", "a b", "-a", "a_b", "é", "a" * 64, "a\n", "a.>"])
def test_a_name_that_is_no_word_of_a_subject_is_refused(name: str) -> None:
    for subject in (
        subjects.command_subject,
        subjects.host_inbox,
        subjects.join_subject,
        subjects.next_command_subject,
    ):
        with pytest.raises(UsageError, match="can't be the name of a host in a fleet"):
            subject(name)


def test_no_host_can_have_the_hub_s_inbox_or_an_invite_s() -> None:
    hub, host, invite = subjects.HUB_INBOX, subjects.host_inbox("HUB"), subjects.join_inbox("HUB")
    assert len({hub, host, invite}) == 3
