"""Reading a history with GitPython: as git tells it, under the runner's settings, environment and time limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from supervisor_core.code.git.history import (
    commits,
    common_ancestor,
    count_commits,
    count_lines,
    files_between,
    find_removed_commit,
    has_file,
    is_ancestor,
    resolve_commit,
    tree_of,
)

from supervisor_core.code.change_plan import FileChange
from supervisor_core.code.git import Git, GitError, GitLateError, git_environment
from supervisor_core.code.git import repository as git_repository
from supervisor_core.host.programs import ProgramError
from tests.support.code.code_hosts import a_code_place, done, failed
from tests.support.code.commits import straight
from tests.support.code.repositories import Clones, Repository, origin_and_checkout, shallow
from tests.support.waiting import wait_until

WHO = "A U Thor <a@example.org> 1700000000 +0100"


@pytest.fixture
def made(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


def object_of(made: Clones, headers: bytes, message: bytes) -> str:
    """A commit with these headers on top of the head; its hash."""
    given = f"tree {made.checkout.tree()}\nparent {made.checkout.head}\n".encode() + headers + b"\n" + message
    words = ("hash-object", "-t", "commit", "-w", "--stdin", "--literally")
    return made.checkout.git(*words, given=given)


PLAIN = f"author {WHO}\ncommitter {WHO}\n".encode()
SIGNATURE = b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc=\n -----END PGP SIGNATURE-----\n"
MESSAGES = {
    "one line": b"Change\n",
    "no line break": b"Change",
    "none": b"",
    "only blank lines": b"\n \n\n",
    "a body": b"Change\n\nThe body\n\nhas two parts.\n",
    "a subject of two lines": b"Change this  \n  and that\n\nBody",
    "blank lines at first": b"\n  \nChange\n\n\n\nBody\n",
    "a line of spaces between": b"Change\n \t \nBody\n",
    "a carriage return": b"Change\r\n\r\nBody\r\nof two lines\r\n",
    "a form feed": b"Change\x0c\n\x0c\nBody\n",
    "a NUL": b"Change\0hidden\n\nhidden",
    "trailers": b"Revert\n\nThis reverts commit " + b"1" * 40 + b".\n\nSupervisor-Task: t1\n",
}


UNKNOWN = {
    "another encoding": PLAIN.replace(b"A U", b"\xc4 U") + b"encoding ISO-8859-1\n",
    "a signature of another kind": PLAIN + SIGNATURE.replace(b"gpgsig", b"gpgsig-sha256"),
    "an encoding that nobody knows": PLAIN + b"encoding nonsense\n",
    "an encoding that is none of text": PLAIN + b"encoding zlib\n",
    "an encoding that always fails": PLAIN + b"encoding undefined\n",
}


@pytest.mark.parametrize("headers", UNKNOWN.values(), ids=UNKNOWN)
def test_unusual_headers_and_encodings_are_read(made: Clones, headers: bytes) -> None:
    name = object_of(made, headers, b"Change\n\nBody\n")
    (found,) = commits(Git(made.checkout.folder), name, most=1)
    assert (found.hash, found.author, found.subject, found.body) == (
        name,
        "\xc4 U Thor" if b"8859" in headers else "A U Thor",
        "Change",
        "Body\n",
    )


@pytest.mark.parametrize(
    ("seconds", "year"), [("", 1970), ("x", 1970), ("-5", 1970), ("99999999999", 5138), ("9999999999999", 9999)]
)
def test_a_time_that_nobody_could_have_committed_at_is_no_error(made: Clones, seconds: str, year: int) -> None:
    name = object_of(made, PLAIN.replace(b"1700000000", seconds.encode()), b"Change\n")
    (found,) = commits(Git(made.checkout.folder), name, most=1)
    assert (found.subject, found.at.year) == ("Change", year)


def test_merges_ranges_and_empty_ranges(made: Clones) -> None:
    made.checkout.git("switch", "--quiet", "--create", "side", "HEAD~2")
    made.checkout.commit({"side.txt": "1\n"}, "Ümläut", author="Ünal <u@example.org>")
    made.checkout.git("switch", "--quiet", "main")
    made.checkout.git("merge", "--quiet", "--no-edit", "side")
    git = Git(made.checkout.folder)
    merge, *_ = commits(git, "HEAD", most=100)
    assert merge.is_merge
    assert [commit.subject for commit in commits(git, "HEAD~1..HEAD", most=100)] == [merge.subject, "Ümläut"]
    assert commits(git, "HEAD..HEAD", most=100) == []
    assert [commit.hash for commit in commits(git, "HEAD", most=9, first_parents=True)] == made.checkout.log()


def test_the_first_commits_of_a_shallow_clone_have_no_parents(made: Clones, tmp_path: Path) -> None:
    cut = shallow(made.origin, tmp_path / "shallow", depth=2)
    *_, first = commits(Git(cut.folder), "HEAD", most=5)
    assert first.parents == ()


def test_a_replaced_commit_is_read_as_it_is(made: Clones) -> None:
    git, head = Git(made.checkout.folder), made.checkout.head
    made.checkout.git("replace", head, object_of(made, PLAIN, b"Not this\n"))
    assert commits(git, head, most=1)[0].subject != "Not this"


# Repositories with SHA-256 names


@pytest.fixture
def sha256(tmp_path: Path) -> Repository:
    """A checkout with SHA-256 names whose remote has a commit more than it, and one that it has lost."""
    origin = Repository(tmp_path / "origin.git")
    checkout = Repository(tmp_path / "checkout", origin.clock)
    for each, bare in ((origin, ["--bare"]), (checkout, [])):
        each.folder.mkdir()
        each.git("init", "--quiet", "--template=", "--initial-branch=main", "--object-format=sha256", *bare)
    checkout.git("remote", "add", "origin", str(origin.folder))
    for number in range(4):
        checkout.commit({"watcher.py": f"print({number})\n", f"{number}.txt": "new\n"}, f"Change {number}")
    checkout.push()
    checkout.git("reset", "--quiet", "--hard", "HEAD~1")
    return checkout


def test_a_repository_with_sha_256_names_is_read(sha256: Repository) -> None:
    git = Git(sha256.folder)
    newest, older, *_ = commits(git, "HEAD", most=9)
    assert (newest.hash, newest.subject, len(newest.hash)) == (sha256.head, "Change 2", 64)
    assert (resolve_commit(git, "HEAD"), tree_of(git, "HEAD")) == (newest.hash, newest.tree)
    assert (count_commits(git, "HEAD"), common_ancestor(git, "HEAD", older.hash)) == (3, older.hash)
    assert (is_ancestor(git, older.hash, newest.hash), is_ancestor(git, newest.hash, older.hash)) == (True, False)
    assert (has_file(git, "HEAD", "2.txt"), has_file(git, "HEAD~1", "2.txt")) == (True, False)
    assert FileChange("A", "2.txt") in files_between(git, older.hash, newest.hash)
    assert find_removed_commit(git, "refs/remotes/origin/main", "HEAD") == ""


def test_lines_are_counted_also_of_a_renamed_file_and_not_of_a_binary_one(tmp_path: Path) -> None:
    story = straight(
        {"old name.txt": "1\n2\n3\n4\n5\n6\n", "gone.txt": "a\nb\n", "data": "\0\1"},
        {"old name.txt": None, "tab\tname.txt": "1\n2\n3\n4\n5\n7\n8\n", "gone.txt": None, "data": "\0\2", "n": "x\n"},
    )
    git = Git(origin_and_checkout(tmp_path, story).checkout.folder)
    counted = count_lines(git, "HEAD~1", "HEAD", files_between(git, "HEAD~1", "HEAD"))
    assert {each.path: (each.kind, each.was, each.added, each.removed) for each in counted} == {
        "tab\tname.txt": ("R", "old name.txt", 2, 1),
        "gone.txt": ("D", "", 0, 2),
        "data": ("M", "", None, None),
        "n": ("A", "", 1, 0),
    }


def test_a_git_that_hangs_at_counting_lines_leaves_them_out(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repository, "READING_SECONDS", 1.0)
    real = shutil.which("git")
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        script(tmp_path / "bin" / "git", 'case "$*" in *" --numstat "*) sleep 99;; esac', f'exec {real} "$@"')
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        shown = place.preview("rollback_code")
    assert shown.ok
    assert [each.added for each in shown.files] == [None] * len(shown.files) != []


def test_its_code_is_updated_rolled_back_and_undone(sha256: Repository, tmp_path: Path) -> None:
    with a_code_place(tmp_path / "place", sha256.folder) as place:
        done(place, "update_code", "t1")
        assert (sha256.folder / "watcher.py").read_text() == "print(3)\n"
        seen = place.preview("rollback_code", {"commits_back": 2})
        assert [commit.subject for commit in seen.commits] == ["Change 3", "Change 2"]
        done(place, "rollback_code", "t2", commits_back=2)
        assert (sha256.folder / "watcher.py").read_text() == "print(1)\n"
        done(place, "undo_code", "t3")
        assert (sha256.folder / "watcher.py").read_text() == "print(3)\n"


# What a repository or an environment could do


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


RUNS = (
    *("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "core.askPass", "sequence.editor"),
    *("diff.external", "diff.touch.textconv", "diff.touch.command", "pager.log", "pager.diff"),
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
            seen = place.preview(handler, params)
            assert seen.ok, (seen.refused, seen.conflict)
            assert seen.commits
            assert seen.files
    assert not ran.exists(), ran.read_text()
    subprocess.run(["git", "-C", str(checkout.folder), "diff", "HEAD~1"], capture_output=True, timeout=60)
    assert ran.exists(), "an ordinary git runs it"


def test_git_gets_the_environment_of_the_runner_and_nothing_of_ours(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    real = shutil.which("git")
    script(tmp_path / "bin" / "git", f'env >> {said}; echo "WORDS $@" >> {said}', f'exec {real} "$@"')
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    git = Git(made.checkout.folder)
    newest, older = commits(git, "HEAD", most=2)
    assert files_between(git, older.hash, newest.hash)
    lines = said.read_text().splitlines()
    calls = [line for line in lines if line.startswith("WORDS ")]
    assert len(calls) == 2
    assert all(" -c core.fsmonitor=false " in call and " --no-pager " in call for call in calls)
    names = {line.split("=")[0] for line in lines if "=" in line and not line.startswith("WORDS ")}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} <= {*git_environment(os.environ)}
    assert "/nowhere" not in said.read_text()


@pytest.mark.parametrize("name", ["GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"])
def test_variables_that_lead_gitpython_astray_do_not_lead_us(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(tmp_path))
    assert commits(Git(made.checkout.folder), "HEAD", most=1)[0].hash == made.checkout.head


def test_a_folder_with_a_dollar_sign_is_not_another_one(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path / "$HOME ~")
    assert commits(Git(made.checkout.folder), "HEAD", most=1)[0].hash == made.checkout.head


HANGS = "sleep 99 & echo $! >> {pids}; (sleep 98 & echo $! >> {pids}; wait) & echo $! >> {pids}; wait"


@pytest.mark.parametrize("command", ["log", "diff-tree"])
def test_a_git_that_hangs_ends_at_the_deadline_with_all_that_it_started(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    pids = tmp_path / "pids"
    hangs = HANGS.format(pids=pids)
    real = shutil.which("git")
    script(tmp_path / "bin" / "git", f'case "$*" in *" {command} "*) {hangs};; esac', f'exec {real} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    begun = time.monotonic()
    git = Git(made.checkout.folder, deadline=begun + 1.5)
    with pytest.raises(GitError) as caught:
        files_between(git, "HEAD~1", "HEAD") if command == "diff-tree" else commits(git, "HEAD", most=2)
    assert f"`git {command}` timed out after" in str(caught.value)
    assert time.monotonic() - begun < 10
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 3
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), 5, "all of them are gone")
    with pytest.raises(GitLateError):
        resolve_commit(git, "HEAD")


def test_a_preview_with_a_git_that_hangs_is_refused_in_time(
    made: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repository, "READING_SECONDS", 1.0)
    real = shutil.which("git")
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        script(tmp_path / "bin" / "git", 'case "$*" in *" log "*) sleep 99;; esac', f'exec {real} "$@"')
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        assert "`git log` timed out after 1 s" in place.preview("rollback_code").refused
        assert "`git log` timed out after 1 s" in failed(place, "rollback_code")


def test_without_git_the_error_says_so(made: Clones, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="The program git isn't installed"):
        commits(Git(made.checkout.folder, {"PATH": str(tmp_path)}), "HEAD", most=1)


def test_a_look_leaves_no_process_and_no_open_file(made: Clones) -> None:
    git = Git(made.checkout.folder)
    commits(git, "HEAD", most=5)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        commits(git, "HEAD", most=5)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_importing_it_runs_no_git_and_needs_none(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = script(tmp_path / "bin" / "git", f"touch {ran}")
    environ = {**os.environ, "PATH": str(program.parent), "GIT_PYTHON_GIT_EXECUTABLE": str(program)}
    environ |= {"GIT_PYTHON_REFRESH": "raise", "GIT_PYTHON_TRACE": "full"}
    words = [sys.executable, "-W", "error", "-c", "import supervisor_core.code.git.repository"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert not ran.exists()


def test_gitpython_is_imported_only_to_read() -> None:
    imports = "import sys, supervisor_core.code.git.head, supervisor_core.code.planning"
    words = [sys.executable, "-c", f"{imports}; print('git' in sys.modules)"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
