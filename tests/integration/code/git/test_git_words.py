"""What git and its remote say: read exactly where it is read, and harmless where people are told of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from supervisor_core.code.git.history import commits

from supervisor_core.code import git as door
from supervisor_core.code.git import Git, GitError, without_credentials
from supervisor_core.code.git_changes import fetch, push
from tests.support.code.repositories import Clones, origin_and_checkout


@pytest.fixture
def made(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


def test_a_commit_that_speaks_of_bytes_left_out_can_be_read(made: Clones) -> None:
    made.checkout.commit(message="Cut the log\n\nIt says `… 12 bytes left out …` then.")
    (newest,) = commits(Git(made.checkout.folder), "HEAD", most=1)
    assert "12 bytes left out" in newest.body


def test_an_answer_with_a_gap_is_refused(made: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "READ_BYTES", 100)
    with pytest.raises(GitError, match="printed more than can be read"):
        commits(Git(made.checkout.folder), "HEAD", most=5)


def test_a_token_in_the_query_of_an_address_is_not_told(
    made: Clones, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(made.origin.folder.parent))
    caplog.set_level("DEBUG")
    made.checkout.git("remote", "set-url", "origin", "http://127.0.0.1:9/code.git?private_token=glpat-SECRET")
    with pytest.raises(GitError, match=r"origin can't be reached") as caught:
        fetch(Git(made.checkout.folder), "origin", "main")
    assert "code.git?****" in str(caught.value)
    assert "SECRET" not in str(caught.value) + caplog.text


def test_a_question_is_no_query() -> None:
    assert without_credentials("What now? See https://x.org/a#b and c?") == ("What now? See https://x.org/a#b and c?")


UNRULY = b"#!/bin/sh\nprintf '\\033[2J\\377 keep out\\n' >&2\nexit 1\n"
"""A hook of a remote that clears the screen, and says a byte that is no UTF-8."""


def test_a_remote_can_not_clear_the_screen_of_who_reads_its_words(made: Clones) -> None:
    hook = made.origin.folder / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(UNRULY)
    hook.chmod(0o755)
    made.checkout.commit({"own.txt": "own\n"})
    with pytest.raises(GitError, match="keep out") as caught:
        push(Git(made.checkout.folder), "origin", "main")
    assert "pre-receive hook declined" in str(caught.value)
    assert str(caught.value).isprintable()
    str(caught.value).encode()


def test_a_subject_can_not_clear_the_screen_either(made: Clones) -> None:
    message = made.checkout.folder / "message"
    message.write_bytes(b"Clear \x1b[2J \xff\n")
    made.checkout.git("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--file", str(message))
    (commit,) = commits(Git(made.checkout.folder), "HEAD", most=1)
    subject = commit.subject
    assert subject.startswith("Clear \\x1b[2J ")
    assert subject.isprintable()
