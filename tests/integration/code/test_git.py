"""The one door to git, with real repositories: what it reads, what it never runs, and when it gives up."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor_core.code import git as git_reading
from supervisor_core.code import git_changes
from supervisor_core.code.git import (
    LARGEST_COMMIT,
    Git,
    GitError,
    GitLateError,
    NoCheckoutError,
    git_environment,
    head_of,
)
from supervisor_core.code.git_changes import fetch, keep_commit, push, tidy
from tests.support.code.code_homes import a_code_place, failed
from tests.support.code.commits import straight
from tests.support.code.repositories import Clones, Repository, new_repository, origin_and_checkout, shallow
from tests.support.waiting import wait_until

WHO = "A U Thor <a@example.org> 1700000000 +0100"
PLAIN = f"author {WHO}\ncommitter {WHO}\n".encode()


@pytest.fixture
def made(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


@pytest.fixture
def git(made: Clones) -> Git:
    return Git(made.checkout.folder)


# The state of a checkout


def test_changes_and_untracked_files_are_named(made: Clones, git: Git) -> None:
    clean = git.state()
    assert (clean.dirty, clean.under_way, clean.branch, clean.top) == (False, "", "main", made.checkout.folder)
    assert (clean.head, git.distance("origin", "main")) == (made.checkout.head, (0, 0))
    made.checkout.write({"watcher.py": "changed", "with space ü\nand line": ""})
    made.checkout.git("mv", "src/util.py", "moved.txt")
    state = git.state()
    assert set(state.changes) == {"watcher.py", "src/util.py", "moved.txt"}
    assert state.untracked == ("with space ü\nand line",)


def test_distance_branches_and_first_commits(made: Clones, git: Git, tmp_path: Path) -> None:
    made.checkout.git("reset", "--quiet", "--hard", "HEAD~2")
    made.checkout.commit({"own.txt": "own"})
    assert git.distance("origin", "main") == (1, 2)
    assert git.distance("origin", "never-fetched") == (None, None)
    made.checkout.git("checkout", "--quiet", "--detach")
    assert git.state().branch == ""
    empty = new_repository(tmp_path / "empty")
    state = Git(empty.folder).state()
    assert (state.head, state.branch, state.dirty) == ("", "main", False)


def test_an_unfinished_revert_is_seen(made: Clones, git: Git) -> None:
    made.checkout.commit({"watcher.py": "wholly different"})
    made.checkout.run("revert", "--no-edit", "HEAD~1")
    made.checkout.run("revert", "--no-commit", "HEAD")
    assert git.state().under_way == "revert"


def test_a_folder_without_a_checkout_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NoCheckoutError, match="isn't a git checkout"):
            Git(folder).state()


@pytest.mark.parametrize(
    "name", ["index.lock", "HEAD.lock", "ORIG_HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"]
)
def test_each_lock_that_would_stop_a_change_is_seen(made: Clones, git: Git, name: str) -> None:
    (made.checkout.folder / ".git" / "refs" / "heads" / "other.lock").touch()
    assert git.state().lock is None
    lock = made.checkout.folder / ".git" / name
    lock.touch()
    assert git.state().lock == lock
    assert Git(made.checkout.folder / "src").state().lock == lock


def test_a_lock_on_the_branch_of_a_worktree_is_where_all_worktrees_have_their_branches(
    made: Clones, tmp_path: Path
) -> None:
    made.checkout.git("worktree", "add", "--quiet", "-b", "side/way", str(tmp_path / "beside"))
    lock = made.checkout.folder / ".git" / "refs/heads/side/way.lock"
    lock.touch()
    assert Git(tmp_path / "beside").state().lock == lock


def test_the_head_read_from_files_is_that_of_git(made: Clones, tmp_path: Path) -> None:
    side, outer = tmp_path / "side", new_repository(tmp_path / "outer")
    made.checkout.git("worktree", "add", "--quiet", "-b", "side", str(side))
    Repository(side).commit({"aside.txt": "1"})
    assert head_of(made.checkout.folder / "src") == made.checkout.head
    for _ in range(2):
        assert head_of(side) == Repository(side).head
        made.checkout.git("pack-refs", "--all")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(made.checkout.folder), "part")
    assert head_of(outer.folder / "part") == made.checkout.head


def test_a_head_that_the_files_do_not_have_is_empty(tmp_path: Path) -> None:
    assert head_of(tmp_path) == ""
    git = new_repository(tmp_path / "new").folder / ".git"
    assert head_of(git.parent) == ""
    (git / "refs" / "heads").mkdir(parents=True, exist_ok=True)
    (git / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop")
    heads = ("", "ref: ../../secret", "ref: refs/heads/../../x", "ref: HEAD", "x" * 40, "a" * 41, "\xff\x00")
    for head in (*heads, "ref: refs/heads/loop"):
        (git / "HEAD").write_text(head)
        assert head_of(git.parent) == ""


# Histories


def object_of(made: Clones, headers: bytes, message: bytes) -> str:
    """A commit with these headers on top of the head; its hash."""
    given = f"tree {made.checkout.tree()}\nparent {made.checkout.head}\n".encode() + headers + b"\n" + message
    return made.checkout.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", given=given)


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "nonsense", "zlib", "undefined"])
def test_unusual_encodings_are_read(made: Clones, git: Git, encoding: str) -> None:
    latin = encoding == "ISO-8859-1"
    headers = PLAIN.replace(b"A U", b"\xc4 U") if latin else PLAIN
    commit = git.commit(object_of(made, headers + f"encoding {encoding}\n".encode(), b"Change\n\nBody\n"))
    assert (commit.author, commit.subject, commit.body) == ("Ä U Thor" if latin else "A U Thor", "Change", "Body\n")


@pytest.mark.parametrize(("seconds", "year"), [("", 1970), ("x", 1970), ("-5", 1970), ("9999999999999", 9999)])
def test_an_impossible_time_of_a_commit_is_no_error(made: Clones, git: Git, seconds: str, year: int) -> None:
    name = object_of(made, PLAIN.replace(b"1700000000", seconds.encode()), b"Change\n")
    assert git.commit(name).at.year == year


def test_merges_ranges_and_replaced_commits(made: Clones, git: Git, tmp_path: Path) -> None:
    made.checkout.git("switch", "--quiet", "--create", "side", "HEAD~2")
    made.checkout.commit({"side.txt": "1\n"}, "Ümläut", author="Ünal <u@example.org>")
    made.checkout.git("switch", "--quiet", "main")
    made.checkout.git("merge", "--quiet", "--no-edit", "side")
    merge, *_ = git.commits("HEAD", most=100)
    assert merge.is_merge
    assert [commit.subject for commit in git.commits("HEAD~1..HEAD", most=100)] == [merge.subject, "Ümläut"]
    assert git.commits("HEAD..HEAD", most=100) == []
    assert [commit.hash for commit in git.commits("HEAD", most=9, first_parents=True)] == made.checkout.log()
    made.checkout.git("replace", merge.hash, object_of(made, PLAIN, b"Not this\n"))
    assert git.commit("HEAD") == merge
    *_, first = Git(shallow(made.origin, tmp_path / "shallow", depth=2).folder).commits("HEAD", most=5)
    assert first.parents == ()


def test_lines_are_counted_also_of_a_renamed_file_and_not_of_a_binary_one(tmp_path: Path) -> None:
    story = straight(
        {"old name.txt": "1\n2\n3\n4\n5\n6\n", "gone.txt": "a\nb\n", "data": "\0\1"},
        {"old name.txt": None, "tab\tname.txt": "1\n2\n3\n4\n5\n7\n8\n", "gone.txt": None, "data": "\0\2", "n": "x\n"},
    )
    git = Git(origin_and_checkout(tmp_path, story).checkout.folder)
    changes = git.changed_files("HEAD~1", "HEAD", count_lines=True)
    assert {change.path: (change.kind, change.was, change.added, change.removed) for change in changes} == {
        "tab\tname.txt": ("R", "old name.txt", 2, 1),
        "gone.txt": ("D", "", 0, 2),
        "data": ("M", "", None, None),
        "n": ("A", "", 1, 0),
    }


def test_a_repository_with_sha_256_names_is_refused(tmp_path: Path) -> None:
    checkout = Repository(tmp_path / "checkout")
    checkout.folder.mkdir()
    checkout.git("init", "--quiet", "--template=", "--initial-branch=main", "--object-format=sha256")
    checkout.commit({"watcher.py": "print(1)\n"})
    git = Git(checkout.folder)
    for read in (git.state, lambda: git.commit("HEAD"), lambda: git.commits("HEAD", most=1)):
        with pytest.raises(GitError, match="has the object format sha256, and only sha1 can be read"):
            read()
    with a_code_place(tmp_path / "place", checkout.folder) as place:
        assert "only sha1 can be read" in place.plan("rollback_code").refused


def test_a_huge_commit_and_a_damaged_one_are_refused(made: Clones, git: Git) -> None:
    assert len(git.commit(object_of(made, PLAIN, b"Change\n\n" + b"x" * 1_000_000)).body) == 1_000_000
    huge = object_of(made, PLAIN, b"Change\n\n" + b"x" * LARGEST_COMMIT)
    with pytest.raises(GitError, match="too many to be read"):
        git.commit(huge)
    damaged = made.checkout.folder / ".git/objects" / huge[:2] / huge[2:]
    damaged.chmod(0o600)
    damaged.write_bytes(b"nothing that zlib knows")
    for name in (huge, "HEAD~99", "0" * 40, "b" * 40, "refs/heads/none"):
        with pytest.raises(GitError, match="has no commit"):
            git.commit(name)


def test_commits_are_read_from_packs_alternates_and_while_they_are_packed(
    made: Clones, git: Git, tmp_path: Path
) -> None:
    for number in range(30):  # messages that are alike become differences
        made.checkout.commit(message=f"Change {number}\n\n" + "the same words\n" * 50)
    commits = git.commits("HEAD", most=20)
    made.checkout.git("clone", "--quiet", "--shared", str(made.checkout.folder), str(tmp_path / "shared"))
    with ThreadPoolExecutor(4) as pool:
        readings = [pool.submit(git.commits, "HEAD", most=20) for _ in range(40)]
        for _ in range(5):
            made.checkout.git("repack", "--quiet", "-a", "-d", "-f")
            made.checkout.git("pack-refs", "--all")
            made.checkout.commit(message="One more")
            made.checkout.git("reset", "--quiet", "--soft", "HEAD~1")
            made.checkout.git("update-ref", "refs/heads/other", "HEAD")
        assert {len(reading.result()) for reading in readings} == {20}
    assert git.commits("HEAD", most=20) == Git(tmp_path / "shared").commits("HEAD", most=20) == commits
    gc.collect()
    git.commit("HEAD")
    assert ".pack (deleted)" not in Path("/proc/self/maps").read_text()


# What a repository, a remote or an environment could do


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def wrap_git(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Put a `git` before the real one that does this first."""
    script(folder / "bin" / "git", line, f'exec {shutil.which("git")} "$@"')
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")


RUNS = (
    *("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "core.askPass", "sequence.editor"),
    *("diff.external", "diff.touch.textconv", "diff.touch.command", "pager.log", "pager.diff", "pager.status"),
    *("credential.helper", "gpg.program"),
)
ALIASES = ("rev-list", "log", "cat-file", "diff-tree", "merge-base", "rev-parse", "remote", "status")


def test_nothing_that_a_repository_configures_is_run_by_a_preview(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = tmp_path / "ran"
    program = script(tmp_path / "bin" / "touching", f'touch {ran}; echo "$0 $@" >> {ran}', "exit 1")
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "pre-auto-gc"):
        script(tmp_path / "hooks" / name, f"touch {ran}")
    checkout = made.checkout
    made.comes_in({"watcher.py": "print('four')\n", ".gitattributes": "* diff=touch\n"})
    (checkout.folder / ".git" / "info").mkdir(exist_ok=True)
    (checkout.folder / ".git" / "info" / "attributes").write_text("* diff=touch\n")
    checkout.git("config", "core.hooksPath", str(tmp_path / "hooks"))
    checkout.git("config", "log.showSignature", "true")
    for setting in RUNS:
        checkout.git("config", setting, str(program))
    for name in ALIASES:
        checkout.git("config", f"alias.{name}", f"!{program}")
    with a_code_place(tmp_path / "place", checkout.folder) as place:
        for handler, params in (("update_code", {}), ("rollback_code", {"commits_back": 2})):
            plan = place.plan(handler, params)
            assert plan.ok, (plan.refused, plan.conflict)
            assert plan.commits
            assert plan.files
    assert not ran.exists(), ran.read_text()
    subprocess.run(["git", "-C", str(checkout.folder), "diff", "HEAD~1"], capture_output=True, timeout=60)
    assert ran.exists(), "an ordinary git runs it"


def test_a_look_writes_nothing_and_leaves_no_open_file(made: Clones, git: Git) -> None:
    (made.checkout.folder / "watcher.py").touch()  # which makes an ordinary status write the index anew
    index = made.checkout.folder / ".git" / "index"
    before = (index.read_bytes(), index.stat().st_mtime_ns)
    git.state()
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        git.commits("HEAD", most=5)
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_git_gets_its_own_environment_and_nothing_of_ours(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record"
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "COMMON_DIR", "OBJECT_DIRECTORY", "EXTERNAL_DIFF"):
        monkeypatch.setenv(f"GIT_{name}", "/nowhere")
    wrap_git(tmp_path, monkeypatch, f"env >> {record}")
    git = Git(git.folder)
    assert git.changed_files("HEAD~1", "HEAD")
    names = {line.split("=")[0] for line in record.read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} <= {*git_environment(os.environ)}
    assert "/nowhere" not in record.read_text()


def test_what_is_read_in_this_process_starts_nothing_and_ignores_our_environment(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record"
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    for name in ("DIR", "WORK_TREE", "COMMON_DIR", "OBJECT_DIRECTORY"):
        monkeypatch.setenv(f"GIT_{name}", "/nowhere")
    wrap_git(tmp_path, monkeypatch, f'echo "$@" >> {record}; env >> {record}')
    code = (
        "import sys; from pathlib import Path; from supervisor_core.code.git import Git; git = Git(Path(sys.argv[1]))\n"
        "print(git.state().branch, git.resolve('refs/heads/main'), git.commit('HEAD').hash, git.tree('HEAD'))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(made.checkout.folder)], capture_output=True, timeout=60)
    head = made.checkout.head
    assert ran.stdout.decode().split() == ["main", head, head, made.checkout.tree()], ran.stderr.decode()
    lines = record.read_text().splitlines()
    assert len([line for line in lines if line.startswith("--no-pager ")]) == 2, "rev-parse for the folders, and status"
    assert "secret" not in "".join(lines)


def test_a_folder_with_a_dollar_sign_is_not_another_one(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path / "$HOME ~")
    assert Git(made.checkout.folder).commit("HEAD").hash == made.checkout.head


def test_a_git_that_hangs_ends_at_the_deadline_with_all_that_it_started(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    hangs = "sleep 99 & echo $! >> {pids}; (sleep 98 & echo $! >> {pids}; wait) & echo $! >> {pids}; wait"
    wrap_git(tmp_path, monkeypatch, f'case "$*" in *" rev-list "*) {hangs.format(pids=pids)};; esac')
    begun = time.monotonic()
    git = Git(git.folder, deadline=begun + 1.5)
    with pytest.raises(GitLateError, match="`git rev-list` timed out after"):
        git.commits("HEAD", most=2)
    assert time.monotonic() - begun < 10
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 3
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), 5, "all of them are gone")
    with pytest.raises(GitLateError):
        git.resolve("HEAD")


def test_a_preview_with_a_git_that_hangs_is_refused_in_time_and_counts_lines_only_if_it_can(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_reading, "READING_SECONDS", 1.0)
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        with monkeypatch.context() as patched:
            wrap_git(tmp_path, patched, 'case "$*" in *" --numstat "*) sleep 99;; esac')
            plan = place.plan("rollback_code")
            assert plan.ok
            assert {change.added for change in plan.files} == {None}
        wrap_git(tmp_path, monkeypatch, 'case "$*" in *" rev-list "*) sleep 99;; esac')
        assert "`git rev-list` timed out after 1 s" in place.plan("rollback_code").refused
        assert "`git rev-list` timed out after 1 s" in failed(place, "rollback_code")


def test_an_answer_with_a_gap_is_refused(made: Clones, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    made.checkout.commit(message="Cut the log\n\nIt says `… 12 bytes left out …` then.")
    assert "12 bytes left out" in git.commit("HEAD").body
    monkeypatch.setattr(git_reading, "READ_BYTES", 100)
    with pytest.raises(GitError, match="printed more than can be read"):
        git.commits("HEAD", most=5)


def test_a_token_in_the_query_of_an_address_is_not_told(
    made: Clones, git: Git, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(made.origin.folder.parent))
    caplog.set_level("DEBUG")
    made.checkout.git("remote", "set-url", "origin", "http://127.0.0.1:9/code.git?private_token=glpat-SECRET")
    with pytest.raises(GitError, match=r"origin can't be reached.*code.git\?\*\*\*\*") as caught:
        fetch(git, "origin", "main")
    assert "SECRET" not in str(caught.value) + caplog.text


def test_neither_a_remote_nor_a_subject_can_clear_a_screen(made: Clones, git: Git) -> None:
    hook = made.origin.folder / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(b"#!/bin/sh\nprintf '\\033[2J\\377 keep out\\n' >&2\nexit 1\n")
    hook.chmod(0o755)
    message = made.checkout.folder / "message"
    message.write_bytes(b"Clear \x1b[2J \xff\n")
    made.checkout.git("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--file", str(message))
    subject = git.commit("HEAD").subject
    assert subject.startswith("Clear \\x1b[2J ")
    assert subject.isprintable()
    with pytest.raises(GitError, match=r"pre-receive hook declined.*keep out") as caught:
        push(git, "origin", "main")
    assert str(caught.value).isprintable()


# Locks of others, and packing


class Releases(logging.Handler):
    """Removes a lock as soon as git has failed because of it."""

    def __init__(self, lock: Path) -> None:
        super().__init__(logging.WARNING)
        self._lock = lock

    def emit(self, record: logging.LogRecord) -> None:
        self._lock.unlink(missing_ok=True)


@pytest.fixture
def lock(made: Clones) -> Path:
    """One on what a fetch writes."""
    lock = made.checkout.folder / ".git" / "refs" / "remotes" / "origin" / "main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    return lock


def test_a_fetch_waits_for_another_one(made: Clones, git: Git, lock: Path) -> None:
    newest, releases = made.comes_in({"new.txt": "new\n"}), Releases(lock)
    git_changes.log.addHandler(releases)
    try:
        assert fetch(git, "origin", "main") == newest
    finally:
        git_changes.log.removeHandler(releases)


def test_concurrent_fetches_all_learn_what_is_new(made: Clones, git: Git) -> None:
    newest = made.comes_in({"new.txt": "new\n"})
    with ThreadPoolExecutor(6) as pool:
        assert {fetching.result() for fetching in [pool.submit(fetch, git, "origin", "main") for _ in range(6)]} == {
            newest
        }


def test_a_lock_that_stays_and_a_ref_in_the_way_are_named_and_the_remote_is_not_blamed(
    made: Clones, git: Git, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_changes, "LOCK_WAITS", (0.0, 0.0))
    made.comes_in({"new.txt": "new\n"})
    with pytest.raises(GitError, match="delete that file") as caught:
        fetch(git, "origin", "main")
    assert f"was killed: {lock} exists" in caught.value.message
    lock.unlink()
    made.checkout.git("update-ref", "-d", "refs/remotes/origin/main")
    made.checkout.git("update-ref", "refs/remotes/origin/main/below", "HEAD")
    with pytest.raises(GitError, match=r"can't be updated in .* Git says: .*cannot lock ref"):
        fetch(git, "origin", "main")


def test_many_packs_become_one_and_what_a_command_kept_stays(
    made: Clones, git: Git, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(made.origin.folder.parent))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    git = Git(git.folder)
    made.checkout.git("config", "fetch.unpackLimit", "1")
    made.checkout.git("config", "gc.autoPackLimit", "1")
    for number in range(3):
        made.comes_in({f"new{number}.txt": "new\n"})
        fetch(git, "origin", "main")
    dropped = made.checkout.commit({"own.txt": "own\n"})
    ref = keep_commit(git, "t1", dropped)
    made.checkout.git("reset", "--quiet", "--hard", "HEAD~1")
    made.checkout.git("reflog", "expire", "--expire=all", "--all")
    with monkeypatch.context() as hasty:
        hasty.setattr(git_changes, "TIDY_SECONDS", 0.0)
        tidy(git)
    assert "failed: timed out after 0 s" in caplog.text
    tidy(git)
    assert len(list((made.checkout.folder / ".git" / "objects" / "pack").glob("*.pack"))) == 1
    assert (git.resolve(ref), made.checkout.status()) == (dropped, "")
