"""Remotes that are trouble: an update ends in time, says why in kind words, and touches neither code nor worker."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from supervisor_core.code import git_changes as git_changing
from supervisor_core.code.git import Git, GitError
from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import ConfigError
from tests.support.code.code_homes import CodeHost, a_code_place
from tests.support.code.remotes import Remote, asks_for_password, hangs, hangs_half_way, no_such
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.waiting import wait_until

LIMIT_SECONDS = 0.6
"""For an operation that is to be late here; a whole fetch takes a tenth of it."""

SECRET = "geheim%40nis"
HOOKS = (
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-merge",
    "post-checkout",
    "post-rewrite",
    "pre-push",
    "reference-transaction",
    "post-index-change",
    "pre-auto-gc",
    "fsmonitor-watchman",
)


@pytest.fixture(autouse=True)
def _no_settings_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Git sees nobody's settings, but those of a test that puts them there; the log is heard."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    caplog.set_level(logging.DEBUG)


@pytest.fixture
def made(tmp_path: Path) -> Clones:
    """A checkout with something to come in."""
    clones = origin_and_checkout(tmp_path / "code")
    clones.comes_in({"watcher.py": "print('four')\n", "new.txt": "new\n"})
    return clones


@pytest.fixture
def place(made: Clones, tmp_path: Path) -> Iterator[CodeHost]:
    with a_code_place(tmp_path / "place", made.checkout.folder) as opened:
        yield opened


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_changing, "OPERATION_SECONDS", LIMIT_SECONDS)


def point_to(made: Clones, url: str) -> None:
    made.checkout.git("remote", "set-url", "origin", url)


def at_work(made: Clones) -> list[int]:
    """The processes that have the checkout as their folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            here = (entry / "cwd").resolve() == made.checkout.folder
        except OSError:
            continue
        if here:
            found.append(int(entry.name))
    return found


def refused(place: CodeHost, made: Clones, handler: str = "update_code", **params: object) -> str:
    """The error of a command that touches neither the code nor the worker, and leaves nothing behind."""
    before = (place.pid(), made.checkout.head, made.checkout.git("for-each-ref"), made.checkout.on_disk())
    outcome = place.carry_out(handler, params)
    assert not outcome.success
    assert (place.pid(), made.checkout.head, made.checkout.git("for-each-ref"), made.checkout.on_disk()) == before
    assert len(place.processes.started) == 1
    assert made.checkout.status() == ""
    assert [path.name for path in (made.checkout.folder / ".git").rglob("*.lock")] == []
    assert at_work(made) == []
    assert outcome.error is not None
    return outcome.error


def went_through(place: CodeHost, made: Clones, outcome: Outcome) -> None:
    assert outcome.success, outcome.error
    assert made.checkout.head == made.colleague.head
    assert made.checkout.status() == ""


@pytest.mark.usefixtures("in_haste")
def test_one_that_hangs_is_given_up_in_time_and_the_next_update_goes_through(place: CodeHost, made: Clones) -> None:
    with hangs() as remote:
        point_to(made, remote.url)
        said = refused(place, made)
        assert said.startswith(f"The remote origin ({remote.url}) didn't answer within 0.")
        assert said.endswith(" s. Check the network and the remote's server, then try again.")
        assert remote.reached.is_set()
    point_to(made, str(made.origin.folder))
    went_through(place, made, place.carry_out("update_code", task_id="t2"))


@pytest.mark.usefixtures("in_haste")
def test_one_that_hangs_in_the_middle_of_the_commits_leaves_the_repository_as_it_was(
    place: CodeHost, made: Clones
) -> None:
    with hangs_half_way(made.origin) as remote:
        point_to(made, remote.url)
        assert "didn't answer within" in refused(place, made)
        assert remote.reached.is_set()
        assert "didn't answer within" in place.plan("update_code").refused
    assert made.checkout.git("fsck", "--no-dangling") == ""
    point_to(made, str(made.origin.folder))
    went_through(place, made, place.carry_out("update_code", task_id="t2"))


def test_one_that_asks_for_a_password_is_sent_none_and_nobody_is_asked(
    place: CodeHost, made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    program = tmp_path / "askpass"
    program.write_text(f"#!/bin/sh\ntouch {asked}\necho secret\n")
    program.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(program))
    made.checkout.git("config", "core.askPass", str(program))
    with asks_for_password() as remote:
        point_to(made, remote.url)
        said = refused(place, made)
        assert "asks for a username and password, and no one is there to enter them" in said
        assert "deploy key or a credential helper" in said
        assert remote.authorizations == []
    assert not asked.exists()


@pytest.mark.parametrize("trouble", [asks_for_password, no_such, hangs], ids=lambda trouble: trouble.__name__)
@pytest.mark.usefixtures("in_haste")
def test_credentials_in_its_address_are_told_nowhere(
    made: Clones,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    trouble: Callable[[], AbstractContextManager[Remote]],
) -> None:
    with (
        trouble() as remote,
        a_code_place(tmp_path / "place", made.checkout.folder, code={"push_rollbacks": True}) as place,
    ):
        point_to(made, remote.url.replace("//", f"//anna:{SECRET}@"))
        said = refused(place, made)
        seen = place.plan("update_code")
        pushed = place.carry_out("rollback_code", task_id="t2")
        assert pushed.success
        assert pushed.details["push_error"]
        everything = place.all_told(seen)
    for text in (said, caplog.text, everything.decode(errors="replace")):
        assert SECRET not in text
        assert "geheim" not in text


def test_credentials_in_the_address_of_a_submodule_are_told_nowhere(
    place: CodeHost, made: Clones, caplog: pytest.LogCaptureFixture
) -> None:
    with no_such() as remote:
        url = remote.url.replace("//", f"//anna:{SECRET}@")
        add_submodule(made, url)
        made.checkout.git("config", "submodule.inner.url", url)
        assert not place.carry_out("update_code").success
        everything = place.all_told(place.plan("update_code"))
    for text in (caplog.text, everything.decode(errors="replace")):
        assert "geheim" not in text


def add_submodule(made: Clones, url: str) -> None:
    """A colleague's commit with a submodule whose code nobody needs to have."""
    modules = f'[submodule "inner"]\n\tpath = inner\n\turl = {url}\n'
    made.colleague.write({".gitmodules": modules})
    made.colleague.git("add", ".gitmodules")
    made.colleague.git("update-index", "--add", "--cacheinfo", f"160000,{made.origin.head},inner")
    made.colleague.git("commit", "--quiet", "--message=Add a submodule")
    made.colleague.push()


@pytest.mark.parametrize("where", ["remote", "rewritten", "submodule"])
def test_an_address_that_is_a_program_is_not_run(
    place: CodeHost, made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    ran = tmp_path / "ran"
    program = f"ext::sh -c touch% {ran}"
    made.checkout.git("config", "protocol.ext.allow", "always")
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext:file")
    if where == "remote":
        point_to(made, program)
    elif where == "rewritten":
        made.checkout.git("config", f"url.{program}.insteadOf", str(made.origin.folder))
    else:
        add_submodule(made, program)
        made.checkout.git("config", "submodule.inner.url", program)
    outcome = place.carry_out("update_code")
    assert not outcome.success
    assert "not allowed" in str(outcome.error)
    assert not ran.exists()
    assert place.pid()


@pytest.mark.parametrize("where", ["its own folder", "a configured folder"])
def test_no_hook_runs_whatever_is_done(made: Clones, tmp_path: Path, where: str) -> None:
    ran = tmp_path / "ran"
    ran.mkdir()
    hooks = made.checkout.folder / ".git" / "hooks"
    if where == "a configured folder":
        hooks = tmp_path / "hooks"
        made.checkout.git("config", "core.hooksPath", str(hooks))
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}/{name}\nexit 1\n")
        (hooks / name).chmod(0o755)
    made.checkout.git("config", "core.fsmonitor", str(hooks / "fsmonitor-watchman"))
    with a_code_place(tmp_path / "place", made.checkout.folder, code={"push_rollbacks": True}) as place:

        def done(handler: str, named: str, /, **params: object) -> None:
            assert place.plan(handler, params).ok
            outcome = place.carry_out(handler, params, named)
            assert outcome.success, outcome.error
            assert outcome.details["before"] != outcome.details["after"]

        done("update_code", "forward")
        done("rollback_code", "back", commits_back=2)
        assert made.origin.head == made.checkout.head, "it was pushed"
        done("undo_code", "undo", task_id="back")
        assert list(ran.iterdir()) == []
        made.colleague.git("pull", "--quiet", "--rebase")
        made.colleague.commit({"more.txt": "more\n"})
        made.colleague.push()
        made.checkout.commit({"own.txt": "own\n"})
        (ran / "fsmonitor-watchman").unlink(missing_ok=True)  # of this commit, which is the test's own
        done("update_code", "merge")
        made.checkout.write({"own.txt": "changed\n"})
        done("update_code", "reset", reset=True)
    assert sorted(path.name for path in ran.iterdir()) == []


@pytest.mark.parametrize("key", ["remote", "branch"])
def test_a_name_that_looks_like_an_option_is_refused_by_the_configuration(
    made: Clones, tmp_path: Path, key: str
) -> None:
    odd = {key: f"--upload-pack=touch {tmp_path}/ran"}
    with pytest.raises(ConfigError, match=f"code.{key}"), a_code_place(tmp_path / "p", made.checkout.folder, code=odd):
        pass


def test_a_remote_that_looks_like_an_option_is_a_name_at_the_door_too(
    place: CodeHost, made: Clones, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    odd = f"--upload-pack={program}"
    made.checkout.git("config", f"remote.{odd}.url", str(made.origin.folder))
    for attempt in (git_changing.fetch, git_changing.push):
        with contextlib.suppress(GitError):  # git itself may refuse the name, or take it
            attempt(Git(made.checkout.folder), odd, "main")
    assert not ran.exists()


def test_a_branch_that_has_vanished_is_named(place: CodeHost, made: Clones) -> None:
    made.origin.git("branch", "other")
    made.origin.git("symbolic-ref", "HEAD", "refs/heads/other")
    made.origin.git("branch", "-D", "main")
    assert refused(place, made) == "origin has no branch main. Fix workers.ID.code.branch."


def test_an_update_that_hangs_while_it_is_previewed_holds_up_no_later_one(
    place: CodeHost, made: Clones, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hasty, hangs() as remote:
        hasty.setattr(git_changing, "OPERATION_SECONDS", LIMIT_SECONDS)
        point_to(made, remote.url)
        assert "didn't answer" in place.plan("update_code").refused
        wait_until(lambda: at_work(made) == [], 5, "git is gone")
    point_to(made, str(made.origin.folder))
    went_through(place, made, place.carry_out("update_code"))
    assert place.pid()
