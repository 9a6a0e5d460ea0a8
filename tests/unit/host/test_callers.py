"""The person behind a call: the login, else `SUDO_USER` as root, else the user."""

from __future__ import annotations

import pwd
from typing import Any

import pytest

from supervisor_core.host.callers import person_name

ROOT, DAEMON, BIN = (pwd.getpwnam(name).pw_uid for name in ("root", "daemon", "bin"))
NOBODY_S = 4_000_000_001


@pytest.mark.parametrize(
    ("caller", "name"),
    [
        ((DAEMON, BIN), "daemon"),
        ((DAEMON, ROOT, "bin"), "daemon"),
        ((None, ROOT, "bin"), "bin"),
        ((None, DAEMON, "bin"), "daemon"),
        ((None, ROOT, "no-such-user"), "root"),
        ((None, ROOT), "root"),
        ((None, NOBODY_S), str(NOBODY_S)),
    ],
    ids=[
        "a login counts, whatever user it became",
        "a login counts more than the word of root",
        "the word of root counts without a login",
        "the word of anybody else doesn't",
        "root can't name somebody who doesn't exist",
        "else it's the user",
        "a user without a name",
    ],
)
def test_the_person_behind_a_call(caller: tuple[Any, ...], name: str) -> None:
    assert person_name(*caller) == name
