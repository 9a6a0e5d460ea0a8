"""The one door to git: runs it with limits, without prompts and hooks, without our environment; and reads checkouts.

Commits, HEAD and refs are read with GitPython, in this process. Whatever git computes, such as ranges, differences and
the status, is a process of git with a time limit. `git_changes` has the operations that change a checkout.

This is the only module that imports GitPython. It is slow to import, so only the function that needs it imports it.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from supervisor_core.code.change_plan import Commit, FileChange
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.config.worker_settings import WorkerSettings, safe_environment
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.programs import ProgramResult, run_command
from supervisor_core.host.web import MASK, without_query
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.observation import DRIVE_SECONDS

if TYPE_CHECKING:
    from git import Repo

T = TypeVar("T")

STATE_SECONDS = 10.0
"""The time for inspecting a checkout, all calls together. A large one on a slow disk takes a second or two."""

READING_SECONDS = 30.0
"""The time for one query, such as the history of ten years or a tree of 100,000 files on a slow disk."""

READ_BYTES = 32 * 1024 * 1024
"""The limit for output that is parsed: the names of some hundred thousand files."""

NAMED_CHANGES = 20
LONGEST_ERROR = 500  # characters of what git says
LONGEST_SUBJECT = 500
"""The most characters of a subject or an author's name. Unprintable ones are escaped, since terminals show them."""

PATHS_AT_ONCE = 200  # on one command line
SUBMODULE = "160000"  # its mode in a tree
LARGEST_COMMIT = 1024 * 1024  # bytes; its message is a person's or a program's, not a file
LATEST = 253_402_300_799  # the last second of the year 9999

KEPT_VARIABLES = frozenset({"SSH_AUTH_SOCK", "XDG_CONFIG_HOME", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"})
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
    "GIT_PROGRESS_DELAY": "1000000",  # seconds; git would die of reporting its progress to a supervisor that is gone
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
    "submodule.recurse=false",  # they are brought along by a step of their own, which a dry run leaves out
    "core.fsync=all",  # what the ledger says was done is on the disk
    "gc.auto=0",  # it would go on in the background
    "credential.interactive=false",
)

OPERATION_FILES = {
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

REF, POINTER = "ref: ", "gitdir: "
LONGEST_REF_CHAIN = 5  # as in git
LARGEST_REF = 4096  # bytes of HEAD, of a reference, of a pointer: they are one line

PAGES: Mapping[str, str] = {
    "github": "/commit/",
    "gitlab": "/-/commit/",
    "bitbucket": "/commits/",
    "gitea": "/commit/",
    "codeberg": "/commit/",
}
"""The part between a repository's address and a commit's hash, by a label of the host's name."""

_ADDRESSES = (
    re.compile(r"https?://(?:[^@/]*@)?(?P<host>[\w.-]+(?::\d{1,5})?)/(?P<path>[\w./~-]+)", re.ASCII),
    re.compile(r"(?:git\+)?ssh://(?:[^@/]*@)?(?P<host>[\w.-]+)(?::\d{1,5})?/(?P<path>[\w./~-]+)", re.ASCII),
    re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[\w.~-][\w./~-]*)", re.ASCII),
)
"""The forms of a remote's address, with characters that a link needn't escape."""

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_CREDENTIALS = re.compile(r"(\w://)[^/\s]+@")
_gitpython_lock = threading.Lock()  # its maps of packs are shared by all threads, and not made for that


class GitError(SupervisorError):
    """Git couldn't do it."""


class NoCheckoutError(GitError):
    """There is no checkout."""


class GitLateError(GitError):
    """A time limit is over."""


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
        """True in a dry run, whose operations nobody needs in the log."""
        self._folders: tuple[Path, Path, Path] | None = None
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

    def run(self, *arguments: str, timeout: float = STATE_SECONDS, given: bytes = b"") -> ProgramResult:
        """Run git in the checkout and return its result, failed or not. Its standard input is `given`."""
        settings = [argument for setting in SETTINGS for argument in ("-c", setting)]
        return run_command(
            ["git", "--no-pager", "-C", str(self.folder), *settings, *arguments],
            env=self._environment,
            given=given,
            timeout=self.seconds_left(timeout),
            keep_bytes=READ_BYTES,
            exact=True,
            only_looks=self.deadline is not None,
        )

    def ask(self, *arguments: str, timeout: float | None = None) -> str:
        """The output of a git command; `GitError` with git's message if it fails or is late."""
        ran = self._read(arguments, timeout)
        if not ran.ok:
            raise GitError(f"`git {arguments[0]}` in {self.folder} failed: {git_message(ran)}")
        if ran.truncated:
            raise GitError(f"`git {arguments[0]}` in {self.folder} printed more than can be read.")
        return ran.output.removesuffix("\n")

    def find(self, *arguments: str) -> str | None:
        """The output of a git command; None if git exits with an error, as it does for what doesn't exist."""
        ran = self._read(arguments, None)
        return ran.output.strip() if ran.ok else None

    def _read(self, arguments: Sequence[str], timeout: float | None) -> ProgramResult:
        seconds = READING_SECONDS if timeout is None else timeout
        ran = self.run(*arguments, timeout=seconds)
        if ran.timed_out:
            raise GitLateError(f"`git {arguments[0]}` timed out after {seconds:.3g} s.", remedy="Check the disk.")
        return ran

    def folders(self, timeout: float = STATE_SECONDS) -> tuple[Path, Path, Path]:
        """Git's folder for this checkout, the one that all worktrees share, and the top folder of the checkout."""
        if self._folders is None:
            try:
                options = ("--show-object-format", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
                objects, own, shared, top = self.ask("rev-parse", *options, timeout=timeout).splitlines()[:4]
            except GitError as error:
                if "not a git repository" in error.message or "cannot change to" in error.message:
                    raise self._no_checkout() from None
                if "dubious ownership" in error.message:
                    trust = f"To trust it: git config --global --add safe.directory {self.folder}"
                    owner = f"{self.folder} is owned by another user, so git refuses it."
                    raise GitError(owner, remedy=trust) from None
                raise
            if objects != "sha1":
                raise GitError(
                    f"{self.folder} has the object format {objects}, and only sha1 can be read.",
                    remedy="Clone a repository with the object format sha1 there.",
                )
            self._folders = Path(own), (self.folder / shared).resolve(), Path(top)
        return self._folders

    def _no_checkout(self) -> NoCheckoutError:
        remedy = "Clone the code there, or set code.path of the worker."
        return NoCheckoutError(f"{self.folder} isn't a git checkout.", remedy=remedy)

    def _read_objects(self, read: Callable[[Repo], T]) -> T:
        """Read with GitPython. It reads the files of the repository in this process, and `read` must not start git:
        commands, differences and ranges of GitPython would get our environment and no time limit."""
        _, shared, top = self.folders()  # git checks first that the folder responds, and that its owner is trusted
        if (shared / "reftable").is_dir():
            raise GitError(
                f"{self.folder} keeps its refs in a reftable, and only the format files can be read.",
                remedy="Convert them: git refs migrate --ref-format=files",
            )
        if not _gitpython_lock.acquire(timeout=self.seconds_left(READING_SECONDS)):
            raise GitLateError(f"{self.folder} waited too long for another checkout.", remedy="Check the disk.")
        try:
            # Its import would run `git version`. With this program nothing can be run, now or later.
            os.environ.update({"GIT_PYTHON_GIT_EXECUTABLE": os.devnull, "GIT_PYTHON_REFRESH": "quiet"})
            for name in ("GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):  # it would read from there
                os.environ.pop(name, None)
            import git

            git.Git.GIT_PYTHON_GIT_EXECUTABLE = os.devnull
            for is_last in (False, True):
                try:
                    repo = git.Repo(top, odbt=git.GitDB, expand_vars=False)
                    try:
                        return read(repo)
                    finally:
                        del repo.odb  # so that closing releases the packs
                        repo.close()
                        del repo.git  # else it would be closed again later, without the lock
                except SupervisorError:
                    raise
                except (git.InvalidGitRepositoryError, git.NoSuchPathError):
                    raise self._no_checkout() from None
                except Exception as error:  # noqa: BLE001 (whatever Python raises for files that anybody can write)
                    if is_last:  # else git may just have replaced the pack
                        reason = safe_message(str(error)) or type(error).__name__
                        raise GitError(f"{self.folder} can't be read: {reason}", remedy="Check: git fsck") from None
            raise AssertionError("the last attempt returns or raises")
        finally:
            _gitpython_lock.release()

    def state(self, seconds: float = STATE_SECONDS) -> CodeState:
        """Read the state of the checkout, within a time limit."""
        deadline = time.monotonic() + seconds
        own, shared, top = self.folders(seconds)
        left = max(deadline - time.monotonic(), 0.1)
        output = self.ask("status", "--porcelain=v2", "--no-renames", "-z", timeout=left)
        head, branch = self._read_objects(
            lambda repo: (
                repo.head.commit.hexsha if repo.head.is_valid() else "",
                "" if repo.head.is_detached else repo.active_branch.name,
            )
        )
        changes, in_submodules, unmerged, untracked = [], [], [], []
        for line in output.split("\0"):
            kind, _, rest = line.partition(" ")
            if kind == "?":
                untracked.append(rest)
            elif kind in ("1", "u"):
                *fields, path = rest.split(" ", 7 if kind == "1" else 9)
                if fields[:2] == [".M", "S..U"]:  # a submodule in which lies what it doesn't know: no change
                    continue
                changes.append(path)
                if fields[1].startswith("S") and "M" in fields[1]:
                    in_submodules.append(path)
                if kind == "u":
                    unmerged.append(path)
        locks = [own / name for name in LOCKS] + [shared / name.format(branch=branch) for name in SHARED_LOCKS]
        return CodeState(
            top=top,
            head=head,
            branch=branch,
            changes=tuple(changes),
            in_submodules=tuple(in_submodules),
            unmerged=tuple(unmerged),
            untracked=tuple(untracked),
            under_way=next((operation for name, operation in OPERATION_FILES.items() if (own / name).exists()), ""),
            lock=next((lock for lock in locks if lock.exists()), None),
        )

    def distance(self, remote: str, branch: str) -> tuple[int, int] | tuple[None, None]:
        """The commits ahead of and behind this remote branch, as it was last fetched; None if it never was."""
        ran = self.run("rev-list", "--left-right", "--count", f"HEAD...refs/remotes/{remote}/{branch}", "--")
        if not ran.ok:
            return None, None
        ahead, behind = ran.output.split()
        return int(ahead), int(behind)

    def resolve(self, name: str) -> str:
        """The full hash of the commit with this name; empty without one."""
        is_hash = _HASH.fullmatch(name)
        if not (is_hash or name == "HEAD" or name.startswith("refs/")):  # a part of a hash, or an ancestor
            return self.find("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}") or ""

        def read_hash(repo: Repo) -> str:
            from git import SymbolicReference

            commit = repo.commit(name) if is_hash else SymbolicReference(repo, name).commit
            return commit.hexsha if commit.size else ""  # the size is read from the object, so it exists

        self.folders()
        try:
            return self._read_objects(read_hash)
        except GitLateError:
            raise
        except GitError:
            return ""

    def tree(self, commit: str) -> str:
        """The hash of a commit's tree: two commits with the same one have the same files."""
        return self.commit(commit).tree

    def contains(self, newer: str, older: str) -> bool:
        """True if the newer commit contains the older one."""
        return self.find("merge-base", "--is-ancestor", older, newer) is not None

    def count(self, revisions: str) -> int:
        return int(self.ask("rev-list", "--count", revisions, "--"))

    def commit(self, name: str) -> Commit:
        commit = self.resolve(name)
        if not commit:
            raise GitError(f"{self.folder} has no commit {safe_message(name)}.")
        return self._read_commits([commit])[0]

    def commits(self, revisions: str, *, most: int, first_parents: bool = False) -> list[Commit]:
        """The newest commits of a range, newest first, up to a limit."""
        order = "--first-parent" if first_parents else "--topo-order"
        return self._read_commits(self.ask("rev-list", f"--max-count={most}", order, revisions, "--").split())

    def _read_commits(self, hashes: Sequence[str]) -> list[Commit]:
        def read(repo: Repo) -> list[Commit]:
            shallow = Path(repo.common_dir, "shallow")
            cut = set(shallow.read_text("ascii").split()) if shallow.exists() else set()
            commits = []
            for name in hashes:
                self.seconds_left(READING_SECONDS)
                commit = repo.commit(name)
                if commit.size > LARGEST_COMMIT:
                    raise GitError(f"Commit {name} in {self.folder} has {commit.size} bytes, too many to be read.")
                tree = commit.tree.hexsha
                parents = () if name in cut else tuple(parent.hexsha for parent in commit.parents)
                # Anybody can write any time into a commit.
                moment = datetime.fromtimestamp(min(commit.committed_date, LATEST), UTC)
                if {"\N{REPLACEMENT CHARACTER}", "\x1b"} & {*(commit.author.name or ""), *str(commit.message)}:
                    # GitPython reads any commit as UTF-8.
                    data = repo.odb.stream(commit.binsha).read()
                    if encoding := re.search(rb"\nencoding ([!-~]+)\n", data.partition(b"\n\n")[0] + b"\n"):
                        with contextlib.suppress(LookupError, ValueError):  # one that Python doesn't have
                            commit._deserialize(BytesIO(data.decode(encoding[1].decode()).encode()))  # noqa: SLF001
                author = one_line(commit.author.name or "", LONGEST_SUBJECT)
                subject, _, body = str(commit.message).lstrip("\n").partition("\n\n")
                subject = one_line(" ".join(subject.rstrip("\n").split("\n")), LONGEST_SUBJECT)
                commits.append(Commit(name, tree, parents, moment, author, subject, body.lstrip("\n")))
            return commits

        return self._read_objects(read) if hashes else []

    def changed_files(self, before: str, after: str, *, count_lines: bool = False) -> list[FileChange]:
        """The files that differ between two commits, with renames; with their lines, if git counts them in time."""
        options = ("-r", "-z", "-M", "--no-ext-diff", "--no-textconv")
        changes = []
        fields = iter(self.ask("diff-tree", "--raw", *options, before, after, "--").split("\0"))
        for header in filter(None, fields):  # `:100644 100755 1a2b… 3c4d… R087`, and the path, or two for a rename
            _, mode, _, _, kind = header.split(" ")
            path, was = next(fields), ""
            if kind[0] in "RC":
                path, was = next(fields), path
            changes.append(FileChange(kind[0], path, was, submodule=mode == SUBMODULE))
        counted: dict[str, tuple[str, str]] = {}
        with contextlib.suppress(GitError):
            numbers = self.ask("diff-tree", "--numstat", *options, before, after, "--") if count_lines else ""
            fields = iter(numbers.split("\0"))
            for record in filter(None, fields):
                added, removed, path = record.split("\t", 2)
                if not path:  # renamed: both names follow
                    _, path = next(fields), next(fields)
                if added.isdigit():  # git writes `-` for a binary file
                    counted[path] = added, removed
        return [
            replace(change, added=int(counted[change.path][0]), removed=int(counted[change.path][1]))
            if change.path in counted
            else change
            for change in changes
        ]

    def blocking_files(self, paths: Iterable[str]) -> list[str]:
        """The untracked files in the way of files with these paths.

        Ignored files count: git itself would overwrite them silently.
        """
        obstacles: set[str] = set()
        for path in paths:
            parts = Path(path).parts
            for number in range(1, len(parts) + 1):  # the path itself, or a file in the place of one of its folders
                here = self.folder.joinpath(*parts[:number])
                if here.is_symlink() or (here.exists() and (number == len(parts) or not here.is_dir())):
                    obstacles.add("/".join(parts[:number]))
                    break
                if not here.exists():
                    break
        folders = {
            path for path in obstacles if (self.folder / path).is_dir() and not (self.folder / path).is_symlink()
        }
        files = sorted(obstacles - folders)
        tracked = set(self._listed_files("--cached", files))
        return [*(path for path in files if path not in tracked), *self._listed_files("--others", sorted(folders))]

    def _listed_files(self, kind: str, paths: Sequence[str]) -> list[str]:
        """The files of this kind at or below these paths, queried in batches, since a command line has a limit."""
        files: list[str] = []
        for start in range(0, len(paths), PATHS_AT_ONCE):
            batch = [f":(top,literal){path}" for path in paths[start : start + PATHS_AT_ONCE]]
            files += self.ask("ls-files", "-z", "--full-name", kind, "--", *batch).split("\0")
        return [path for path in files if path]

    def commit_page(self, remote: str) -> str:
        """The address of a commit's page up to its hash, on this remote's site; empty if git fails: it's optional."""
        try:
            return commit_page(self.find("remote", "get-url", "--", remote) or "")
        except SupervisorError:
            return ""


def git_version() -> str:
    """The version of git; `ProgramError` without git."""
    version = run_command(["git", "--version"], env=git_environment(os.environ), timeout=STATE_SECONDS).output
    return version.strip().removeprefix("git version ")


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
    """The message of git and its remote as one line, safe for terminals and without credentials."""
    return safe_message(ran.errors or ran.output) or "No output."


def safe_message(message: str) -> str:
    """The message as one line without credentials. A remote may send anything, escape sequences too."""
    return one_line(without_credentials(" ".join(message.split())), LONGEST_ERROR)


def without_credentials(text: str) -> str:
    """The text with every `name:password@` of an address masked, and every query: that may be a token."""
    return without_query(_CREDENTIALS.sub(rf"\1{MASK}@", text))


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    for_remotes = {name: value for name, value in environ.items() if name.upper() in KEPT_VARIABLES}
    return {**safe_environment(environ), **for_remotes, **SCRUBBED}


def commit_page(address: str) -> str:
    """The address of a commit's page up to its hash, for the address of a remote; empty for an unknown site.

    A user name, a password or a token in the remote's address is left out.
    """
    match = next(filter(None, (form.fullmatch(address.strip()) for form in _ADDRESSES)), None)
    if match is None or (":" in match["host"] and not address.strip().startswith("https:")):
        return ""  # a port of HTTP isn't one of HTTPS
    host, path = match["host"], match["path"].strip("/").removesuffix(".git")
    page = next((page for name, page in PAGES.items() if name in re.split(r"[.:-]", host.lower())), "")
    return f"https://{host}/{path}{page}" if page and "/" in path and ".." not in path else ""


def top_of(folder: Path) -> Path:
    """The top folder of the checkout of a folder, with links resolved; the folder itself if it isn't in one.

    It searches as git does, without starting git, because it runs before every start and stop of a worker.
    """
    folder = folder.resolve()
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)


def head_of(folder: Path) -> str:
    """The full hash of the checked-out commit of this folder, read without starting git: fast enough for every page.

    It's empty without a commit, or if the files don't have it: git may keep references in a table. `OSError` if the
    files can't be read.
    """
    own = top_of(folder) / ".git"
    if not own.is_dir():  # a worktree's or a submodule's folder is elsewhere
        pointer = _read_line(own)
        if not pointer.startswith(POINTER):
            return ""
        own = own.parent / pointer.removeprefix(POINTER)
    shared = own / (_read_line(own / "commondir") or ".")
    value = _read_line(own / "HEAD")
    for _ in range(LONGEST_REF_CHAIN):
        if not value.startswith(REF):
            return value if _HASH.fullmatch(value) else ""
        name = value.removeprefix(REF)
        if not name.startswith("refs/") or ".." in name:
            return ""
        value = _read_line(own / name) or _read_line(shared / name)
        if not value:
            with (
                contextlib.suppress(FileNotFoundError),
                (shared / "packed-refs").open(encoding="utf-8", errors="replace") as file,
            ):
                value = next((line.split(" ")[0] for line in file if line.rstrip("\n").endswith(f" {name}")), "")
    return ""


def _read_line(path: Path) -> str:
    """The line in one of git's files; empty without the file."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_REF).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def versions(host: HostContext, workers: Collection[WorkerSettings]) -> dict[str, str]:
    """The full hash for each of these workers whose checkout has one; none if the drive is away. The call blocks."""

    def read_heads(folders: Collection[Path]) -> dict[Path, str]:
        heads = {}
        for folder in folders:
            with contextlib.suppress(OSError):  # one that can't be read doesn't affect the others
                heads[folder] = head_of(folder)
        return heads

    try:
        heads = host.drive.call(read_heads, {worker.code.path for worker in workers}, timeout=DRIVE_SECONDS)
    except (DriveUnavailable, OSError):
        return {}
    return {worker.id: head for worker in workers if (head := heads.get(worker.code.path))}
