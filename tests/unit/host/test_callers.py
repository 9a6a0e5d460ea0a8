"""The person behind a call: the login, else `SUDO_USER` as root, else the user."""

from __future__ import annotations

import pwd

import pytest

from supervisor_core.host.callers import Caller, person_name

ROOT, DAEMON, BIN = (pwd.getpwnam(name).pw_uid for name in ("root", "daemon", "bin"))
NOBODY_S = 4_000_000_001


@pytest.mark.parametrize(
    ("caller", "name"),
    [
        (Caller(DAEMON, BIN), "daemon"),
        (Caller(DAEMON, ROOT, "bin"), "daemon"),
        (Caller(None, ROOT, "bin"), "bin"),
        (Caller(None, DAEMON, "bin"), "daemon"),
        (Caller(None, ROOT, "no-such-user"), "root"),
        (Caller(None, ROOT), "root"),
        (Caller(None, NOBODY_S), str(NOBODY_S)),
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
def test_the_person_behind_a_call(caller: Caller, name: str) -> None:
    assert person_name(caller) == name
