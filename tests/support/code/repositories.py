"""Real git repositories for tests: quick to make, with the same hashes each time and none of the user's settings."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.code.commits import (
    AUTHOR,
    FIRST_AT,
    LINK,
    MINUTE,
    PLAIN,
    PROGRAM,
    Entry,
    Files,
    Given,
    History,
    entry,
    straight,
)
from tests.support.storage import run_folder

BRANCH = "main"
GIT_SECONDS = 60.0
"""For one call of git; each takes a few milliseconds."""

SETTINGS = (
    "core.fsync=none",  # nothing here is to outlive the machine
    "fastimport.unpackLimit=0",  # one pack instead of a file for each object
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    f"core.hooksPath={os.devnull}",
)

MAKERS = frozenset({"commit", "merge", "pull", "revert", "cherry-pick", "rebase", "am", "stash", "tag"})
"""What makes commits, and so moves the clock; looking at a repository changes no later hash."""

STRAIGHT = straight(
    {"watcher.py": "print('one')\n", "requirements.txt": "# nothing yet\n"},
    {"watcher.py": "print('two')\n"},
    {"src/util.py": "def util():\n    return 1\n"},
    {"watcher.py": "print('three')\n"},
    {"src/util.py": "def util():\n    return 2\n"},
)
"""Five commits, of which four can be taken back."""


def scrubbed() -> dict[str, str]:
    """What git runs with."""
    name, mail = AUTHOR.rstrip(">").split(" <")
    return {
        **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


class Clock:
    """Each commit is a minute after the last one, in all repositories that share the clock."""

    def __init__(self, at: int = FIRST_AT) -> None:
        self.at = at

    def given(self, words: Collection[str]) -> dict[str, str]:
        """The time for this call of git."""
        if not MAKERS.isdisjoint(words):
            self.at += MINUTE
        date = f"{self.at} +0000"
        return {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}


class Repository:
    """One repository, bare or with a checkout."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self.clock = clock or Clock()

    def __repr__(self) -> str:
        return f"Repository({self.folder})"

    def run(
        self, *words: str, given: bytes | Iterable[bytes] = b"", seconds: float = GIT_SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git in it, whatever comes of that."""
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        return subprocess.run(
            ["git", *settings, *words],
            cwd=self.folder,
            env=scrubbed() | self.clock.given(words),
            input=given if isinstance(given, bytes) else b"".join(given),
            capture_output=True,
            timeout=seconds,
        )

    def git(self, *words: str, given: bytes | Iterable[bytes] = b"") -> str:
        """What git answers, without the newline at its end; an `AssertionError` with its words where it fails."""
        done = self.run(*words, given=given)
        assert done.returncode == 0, f"git {' '.join(words)}: {(done.stderr or done.stdout).decode(errors='replace')}"
        return done.stdout.decode(errors="surrogateescape").removesuffix("\n")

    @property
    def head(self) -> str:
        """The hash of the newest commit."""
        return self.git("rev-parse", "HEAD")

    def tree(self, revision: str = "HEAD") -> str:
        """The hash of the tree of a commit."""
        return self.git("rev-parse", "--verify", f"{revision}^{{tree}}")

    def status(self) -> str:
        """Empty where nothing was changed and nothing is unknown to git."""
        return self.git("status", "--porcelain")

    def log(self, revision: str = "HEAD") -> list[str]:
        """The hashes along the first parents, newest first."""
        return self.git("rev-list", "--first-parent", revision, "--").splitlines()

    def files(self, revision: str = "HEAD") -> Files:
        """The files of a commit."""
        rows = [row.split("\t", 1) for row in self.git("ls-tree", "-r", "-z", revision).split("\0") if row]
        wanted = "".join(f"{words.split()[2]}\n" for words, _ in rows)
        content = self.run("cat-file", "--batch", given=wanted.encode()).stdout
        files: Files = {}
        for words, path in rows:
            header, _, content = content.partition(b"\n")
            size = int(header.split()[2])
            files[path] = Entry(content[:size], words.split()[0])
            content = content[size + 1 :]
        return files

    def on_disk(self) -> Files:
        """The files that lie in the checkout, as git would keep them."""
        files: Files = {}
        for folder, folders, names in os.walk(self.folder):
            here = Path(folder)
            folders[:] = [name for name in folders if name != ".git"]
            for path in (here / name for name in [*names, *folders]):
                if path.is_symlink():
                    files[str(path.relative_to(self.folder))] = Entry(os.fsencode(path.readlink()), LINK)
                elif path.is_file():
                    mode = PROGRAM if path.stat().st_mode & 0o100 else PLAIN
                    files[str(path.relative_to(self.folder))] = Entry(path.read_bytes(), mode)
        return files

    def write(self, files: Mapping[str, Given]) -> None:
        """Write, replace or delete files in the checkout, and commit nothing."""
        for name, given in files.items():
            path = self.folder / name
            for there in (*reversed(path.relative_to(self.folder).parents[:-1]), Path(name)):
                _clear(self.folder / there, keep_folder=there != Path(name))
            if given is None:
                continue
            new = entry(given)
            path.parent.mkdir(parents=True, exist_ok=True)
            if new.mode == LINK:
                path.symlink_to(os.fsdecode(new.content))
            else:
                path.write_bytes(new.content)
                path.chmod(0o755 if new.mode == PROGRAM else 0o644)

    def commit(self, files: Mapping[str, Given] = {}, message: str = "Change", author: str = AUTHOR) -> str:
        """Write these files and commit them, and nothing else that was changed; the hash."""
        self.write(files)
        if files:
            self.git("--literal-pathspecs", "add", "--all", "--", *files)
        words = ["--quiet", "--allow-empty", "--allow-empty-message", f"--message={message}", f"--author={author}"]
        self.git("commit", *words)
        return self.head

    def push(self, *words: str) -> None:
        """Push the branch to the origin; `--force` where that is meant."""
        self.git("push", "--quiet", *words, "origin", f"HEAD:refs/heads/{BRANCH}")


class Clones(NamedTuple):
    """A bare origin, a checkout of it, and another one from which new commits are pushed."""

    origin: Repository
    checkout: Repository
    colleague: Repository

    def comes_in(self, files: Mapping[str, Given] = {}, message: str = "Come in", author: str = AUTHOR) -> str:
        """A colleague's commit is pushed to the origin; its hash."""
        made = self.colleague.commit(files, message, author)
        self.colleague.push()
        return made


def new_repository(folder: Path, clock: Clock | None = None, *, bare: bool = False) -> Repository:
    """One without commits."""
    folder.mkdir(parents=True)
    made = Repository(folder, clock)
    made.git("init", "--quiet", "--template=", f"--initial-branch={BRANCH}", *(["--bare"] if bare else []))
    return made


def make(history: History, folder: Path) -> Repository:
    """A checkout with this history and without a remote, in a folder that is not there yet."""
    made = new_repository(folder, Clock(history.head.at))
    _load(made, history.stream(BRANCH))
    made.git("reset", "--quiet", "--hard")
    return made


def origin_and_checkout(folder: Path, history: History = STRAIGHT) -> Clones:
    """`origin.git`, `checkout` and `colleague` with this history, below this folder: copies of the first ones in this
    run, since git takes longer."""
    stream = b"".join(history.stream(BRANCH))
    name = f"code-{hashlib.sha256(stream).hexdigest()[:20]}"
    first = run_folder.made_once(name, lambda made: _make_origin_and_clones(made, stream))
    shutil.copytree(first, folder, symlinks=True, dirs_exist_ok=True)
    clock = Clock(history.head.at)
    made = Clones(*(Repository(folder / name, clock) for name in ("origin.git", "checkout", "colleague")))
    for each in (made.checkout, made.colleague):
        config = each.folder / ".git" / "config"
        url = str(made.origin.folder).replace("\\", "\\\\").replace('"', '\\"')
        config.write_text(config.read_text().replace(f"url = {first / 'origin.git'}\n", f'url = "{url}"\n'))
        each.git("update-index", "-q", "--refresh")  # git knows its files by their inodes
    return made


def _make_origin_and_clones(folder: Path, stream: bytes) -> None:
    origin = new_repository(folder / "origin.git", bare=True)
    _load(origin, [stream])
    for name in ("checkout", "colleague"):
        clone(origin, folder / name)


def clone(origin: Repository, folder: Path, *words: str, url: str = "") -> Repository:
    """A clone in a folder that is not there yet."""
    origin.git("clone", "--quiet", "--template=", *words, url or str(origin.folder), str(folder))
    return Repository(folder, origin.clock)


def shallow(origin: Repository, folder: Path, depth: int = 2) -> Repository:
    """A clone that knows the newest commits only."""
    return clone(origin, folder, f"--depth={depth}", url=origin.folder.resolve().as_uri())


def _load(repository: Repository, stream: Iterable[bytes]) -> None:
    repository.git("fast-import", "--quiet", given=stream)


def _clear(path: Path, *, keep_folder: bool) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir() and not keep_folder:
        shutil.rmtree(path)
