"""Runs git in one checkout: with limits, without prompts and hooks, and without our environment."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.config.worker_settings import safe_environment
from supervisor_core.host.programs import ProgramResult, run_command
from supervisor_core.host.web import MASK, without_query

GIT_SECONDS = 10.0
"""The time for inspecting a checkout, all calls together. A large one on a slow disk takes a second or two."""

READING_SECONDS = 30.0
"""The time for one query, such as the history of ten years or a tree of 100,000 files on a slow disk."""

READ_BYTES = 32 * 1024 * 1024
"""The limit for output that is parsed: the names of some hundred thousand files."""

NAMED_CHANGES = 20
LONGEST_ERROR = 500  # characters of what git says
LONGEST_SUBJECT = 500
"""The most characters of a subject or an author's name. Unprintable ones are escaped, since terminals show them."""

KEPT = frozenset({"SSH_AUTH_SOCK", "XDG_CONFIG_HOME", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"})
"""The variables that git gets besides the usual ones: those for reaching a remote. The user's git configuration counts,
since it says which checkouts are trusted and how to reach a remote; git's own variables don't."""

SCRUBBED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=10",
    "GIT_HTTP_LOW_SPEED_LIMIT": "1",  # bytes a second; a fetch whose supervisor was killed ends on its own
    "GIT_HTTP_LOW_SPEED_TIME": "60",
    "GIT_OPTIONAL_LOCKS": "0",  # a look takes no lock that somebody else's commit would stumble over
    "GIT_PAGER": "cat",
    "GIT_PROGRESS_DELAY": "1000000",  # seconds; one that tells how far it is dies of it where nobody listens any more
    "GIT_EDITOR": "true",  # nobody is there to edit a message
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_NO_REPLACE_OBJECTS": "1",  # commits as they are, not as somebody would rather have them
    "LC_ALL": "C",
}

SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",  # else a program of the checkout's choice runs
    "core.quotePath=false",
    "protocol.ext.allow=never",  # an address that is a program
    "commit.gpgSign=false",  # it would ask for a passphrase
    "commit.cleanup=whitespace",  # else lines of a message may count as comments
    "rerere.enabled=false",  # a conflict that resolves itself as somebody once did is seen by nobody
    "merge.autoStash=false",
    "push.gpgSign=false",
    "submodule.recurse=false",  # they are brought along by a step of their own, which a trial leaves out
    "core.fsync=all",  # what the ledger says was done is on the disk
    "gc.auto=0",  # it would go on in the background
    "credential.interactive=false",
)

UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "REVERT_HEAD": "revert",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "sequencer": "revert or cherry-pick",
    "BISECT_LOG": "bisect",
}
"""The files in git's folder during an unfinished operation."""

LOCKS = ("index.lock", "HEAD.lock", "ORIG_HEAD.lock")
"""The lock files in git's folder during a change, or after one was cut off."""

SHARED_LOCKS = ("refs/heads/{branch}.lock", "packed-refs.lock")
"""The lock files in the folder that all worktrees of a repository share."""

_CREDENTIALS = re.compile(r"(\w://)[^/\s]+@")
_PATH_FIELD = {"1": 8, "u": 10}  # of a line of `status --porcelain=v2`, how many fields come before the path


class GitError(SupervisorError):
    """Git couldn't do it."""


class GitFailedError(GitError):
    """A git command failed or was late."""


class NoCheckoutError(GitError):
    """There is no checkout."""


class GitLateError(GitError):
    """The total time for looking at a checkout is over."""


class GitPlaces(NamedTuple):
    own: Path
    """Git's folder for this checkout alone."""
    shared: Path
    """The folder that all worktrees of the repository share."""
    top: Path
    """The top folder of the checkout."""


@dataclass(frozen=True, slots=True)
class CodeState:
    """The state of a checkout, without its remote."""

    top: Path
    """Its top folder, which may be above the requested one."""
    head: str
    """The full hash; empty before the first commit."""
    branch: str
    """Empty without a branch."""
    changes: tuple[str, ...]
    """Paths with uncommitted changes."""
    untracked: tuple[str, ...]
    under_way: str
    """An unfinished operation: `merge`, `revert`, `rebase` …"""
    in_submodules: tuple[str, ...] = ()
    """The changes inside submodules, which can't be backed up here."""
    unmerged: tuple[str, ...] = ()
    """The changes with unresolved conflicts."""
    lock: Path | None = None
    """Git's own lock, if there is one."""

    @property
    def dirty(self) -> bool:
        """True with uncommitted changes or untracked files."""
        return bool(self.changes or self.untracked)


class RemoteDistance(NamedTuple):
    """The distance of a checkout from its remote branch, as it was last fetched; None if it never was."""

    ahead: int | None = None
    behind: int | None = None


class Git:
    """One checkout. `extra` are further environment variables for git. No call outlasts `deadline`, a monotonic time,
    whatever its own limit."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> None:
        self.folder = folder
        self.deadline = deadline
        self.is_trial = False
        """True in a temporary worktree, whose operations nobody needs in the log."""
        self._places: GitPlaces | None = None
        self._environment = git_environment(os.environ if environ is None else environ) | dict(extra or {})

    def at(self, folder: Path, **extra: str) -> Git:
        other = Git(folder, {}, deadline=self.deadline)
        other.is_trial = self.is_trial
        other._environment = {**self._environment, **extra}
        return other

    def unhurried(self) -> Git:
        """The same git without a deadline, to clean up after it."""
        other = self.at(self.folder)
        other.deadline = None
        return other

    def seconds_left(self, most: float) -> float:
        """The seconds for one more step, at most `most`; `GitLateError` once the deadline has passed."""
        if self.deadline is None:
            return most
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise GitLateError(f"Checking {self.folder} took too long.", remedy="Try again.")
        return min(most, left)

    def run(self, *words: str, timeout: float = GIT_SECONDS, given: bytes = b"") -> ProgramResult:
        """Run git in the checkout and return its result, failed or not. Its standard input is `given`."""
        seconds = self.seconds_left(timeout)
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        command = ["git", "--no-pager", "-C", str(self.folder), *settings, *words]
        looks = self.deadline is not None
        return run_command(
            command,
            env=self._environment,
            given=given,
            timeout=seconds,
            keep_bytes=READ_BYTES,
            exact=True,
            only_looks=looks,
        )

    def ask(self, *words: str, timeout: float = GIT_SECONDS) -> str:
        """The output of a git command; `GitError` with git's words if it fails or is late."""
        return self.answer(words[0], self.run(*words, timeout=timeout), timeout)

    def answer(self, name: str, ran: ProgramResult, timeout: float) -> str:
        """The output of a finished git command; `GitError` if it failed or was late."""
        if ran.timed_out:
            raise GitFailedError(f"`git {name}` timed out after {timeout:.3g} s.", remedy="Check the disk.")
        if not ran.ok:
            raise GitFailedError(f"`git {name}` in {self.folder} failed: {git_message(ran)}")
        if ran.truncated:
            raise GitError(f"`git {name}` in {self.folder} printed more than can be read.")
        return ran.output

    def state(self, seconds: float = GIT_SECONDS) -> CodeState:
        """Read the state of the checkout, within a time limit."""
        deadline = time.monotonic() + seconds
        own, shared, top = self.places(seconds)
        left = max(deadline - time.monotonic(), 0.1)
        fields = self.ask("status", "--porcelain=v2", "--branch", "--no-renames", "-z", timeout=left).split("\0")
        headers = dict(line[2:].split(" ", 1) for line in fields if line.startswith("# ") and line.count(" ") > 1)
        head, on = headers.get("branch.oid", ""), headers.get("branch.head", "")
        locks = [own / name for name in LOCKS] + [shared / name.format(branch=on) for name in SHARED_LOCKS]
        return CodeState(
            top=top,
            head="" if head == "(initial)" else head,
            branch="" if on == "(detached)" else on,
            changes=tuple(path for line in fields if (path := _changed(line))),
            in_submodules=tuple(path for line in fields if _within_submodule(line) and (path := _changed(line))),
            unmerged=tuple(line.split(" ", 10)[-1] for line in fields if line.startswith("u ")),
            untracked=tuple(line[2:] for line in fields if line.startswith("? ")),
            under_way=next((word for name, word in UNDER_WAY.items() if (own / name).exists()), ""),
            lock=next((lock for lock in locks if lock.exists()), None),
        )

    def places(self, timeout: float = GIT_SECONDS) -> GitPlaces:
        """The folders of the checkout, from one call of git."""
        if self._places is None:
            self._places = self._find_places(timeout)
        return self._places

    def _find_places(self, timeout: float) -> GitPlaces:
        try:
            words = ("--absolute-git-dir", "--git-common-dir", "--show-toplevel")
            said = self.ask("rev-parse", *words, timeout=timeout)
        except GitError as error:
            if "not a git repository" in error.message or "cannot change to" in error.message:
                remedy = "Clone the code there, or set code.path of the worker."
                raise NoCheckoutError(f"{self.folder} isn't a git checkout.", remedy=remedy) from None
            if "dubious ownership" in error.message:
                trust = f"To trust it: git config --global --add safe.directory {self.folder}"
                raise GitError(f"{self.folder} is owned by another user, so git refuses it.", remedy=trust) from None
            raise
        own, shared, top = said.splitlines()[:3]
        return GitPlaces(Path(own), (self.folder / shared).resolve(), Path(top))

    def distance(self, remote: str, branch: str) -> RemoteDistance:
        """Compare the head with this remote branch, as it was last fetched."""
        ran = self.run("rev-list", "--left-right", "--count", f"HEAD...refs/remotes/{remote}/{branch}", "--")
        return RemoteDistance(*map(int, ran.output.split())) if ran.ok else RemoteDistance()


def git_version() -> str:
    """The version of git; `ProgramError` without git."""
    said = run_command(["git", "--version"], env=git_environment(os.environ), timeout=GIT_SECONDS).output
    return said.strip().removeprefix("git version ")


def is_git_running(folder: Path) -> bool:
    """True if a git without a terminal runs in this folder or below, such as one that outlives its supervisor.

    Its lock doesn't show that: git releases it before it moves the branch, and a killed git leaves it.
    """
    import psutil  # seldom needed

    for process in psutil.process_iter(["name", "cwd"]):
        name, cwd = process.info["name"] or "", process.info["cwd"]
        if name.startswith("git") and cwd and Path(cwd).is_relative_to(folder):
            with contextlib.suppress(psutil.Error):
                if not (hasattr(process, "terminal") and process.terminal()):
                    return True
    return False


def git_message(ran: ProgramResult) -> str:
    """Git's words and those of its remote as one line, safe for terminals and without credentials."""
    return safe_message(ran.errors or ran.output) or "No output."


def safe_message(words: str) -> str:
    """Words of git or its remote as one line without credentials. A remote may send anything, escape sequences too."""
    return one_line(without_credentials(" ".join(words.split())), LONGEST_ERROR)


def without_credentials(text: str) -> str:
    """The text with every `name:password@` of an address masked, and every query: that may be a token."""
    return without_query(_CREDENTIALS.sub(rf"\1{MASK}@", text))


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    ways = {name: value for name, value in environ.items() if name.upper() in KEPT}
    return {**safe_environment(environ), **ways, **SCRUBBED}


def _changed(line: str) -> str:
    count = _PATH_FIELD.get(line[:1])
    fields = line.split(" ", count) if count else []
    if fields[1:3] == [".M", "S..U"]:  # a submodule in which lies what it does not know itself: no change either
        return ""
    return fields[-1] if count and len(fields) == count + 1 else ""


def _within_submodule(line: str) -> bool:
    """True if this status line is about a submodule whose own files have changes."""
    words = line.split(" ", 3)
    return line[:1] in _PATH_FIELD and len(words) > 2 and words[2].startswith("S") and "M" in words[2]
