"""GitPython's view of a checkout, for reading. Every git command that GitPython starts runs through our own runner.

GitPython starts git with our whole environment, sets no time limit for what it reads object by object, and reads the
repository's configuration in this process. Here git gets the runner's environment, settings, limits and process group;
no git process outlives its call; and only git reads the configuration.

This is the only module that imports GitPython. It is slow to import, so import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from supervisor_core.code.change_plan import Commit
from supervisor_core.code.git.runner import (
    LONGEST_SUBJECT,
    READING_SECONDS,
    Git,
    GitError,
    GitFailedError,
    safe_message,
)
from supervisor_core.common.text import one_line

# GitPython runs `git version` when it's imported, without a limit and with our environment. This isn't a program, so
# nothing runs; GitPython is quiet about that, and goes on with the `git` that it is given later.
os.environ.update({"GIT_PYTHON_GIT_EXECUTABLE": os.devnull, "GIT_PYTHON_REFRESH": "quiet"})

import git
from git.exc import GitCommandError, InvalidGitRepositoryError, NoSuchPathError
from gitdb.base import OStream

SHA1_LETTERS = 40
CUT = ("shallow", "info/grafts")
"""Files of a repository whose commits don't have the parents that their objects name."""

MISREAD = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""GitPython's errors for a commit that it can't parse, such as one in an encoding that Python doesn't know."""


class UnreadableCommitError(Exception):
    """GitPython can't read this; git itself may."""


class GitCommands(git.Git):
    """Git's commands as methods, each run to its end by our runner."""

    def __init__(self, runner: Git) -> None:
        super().__init__(runner.folder)
        self._runner = runner

    def execute(  # type: ignore[override]  # what isn't listed, such as a shell or an environment, isn't accepted
        self,
        command: Sequence[str],
        *,
        given: bytes = b"",
        kill_after_timeout: float | None = None,
        strip_newline_in_stdout: bool = True,
    ) -> str:
        """Run `git`, whatever program `command` begins with, and return its output.

        A command that fails raises GitPython's own error, as its methods expect; its cause is ours. One that is late
        raises ours.
        """
        _, *words = command
        seconds = READING_SECONDS if kill_after_timeout is None else kill_after_timeout
        ran = self._runner.run(*words, timeout=seconds, given=given)
        try:
            output = self._runner.answer(words[0], ran, seconds)
        except GitError as error:
            if ran.ok or ran.timed_out:
                raise
            raise GitCommandError(list(words), ran.exit_code, ran.errors, ran.output) from error
        return output.removesuffix("\n") if strip_newline_in_stdout else output

    def objects(self, hashes: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
        """Read objects, all by one process: the type and the content of each."""
        listed = "".join(f"{each}\n" for each in hashes).encode()
        words = ["git", "cat-file", "--batch"]
        said = self.execute(words, given=listed, strip_newline_in_stdout=False).encode(errors="surrogateescape")
        at = 0
        for each in hashes:
            end = said.find(b"\n", at)
            header = said[at:end].split()
            if len(header) != 3 or header[0] != each.encode():
                raise UnreadableCommitError(f"{each} isn't there")
            begin, at = end + 1, end + 1 + int(header[2]) + 1
            yield header[1], said[begin : at - 1]


@contextlib.contextmanager
def open_commands(runner: Git) -> Iterator[GitCommands]:
    """Open the commands of a checkout, which raise our own errors."""
    try:
        yield GitCommands(runner)
    except GitCommandError as error:
        cause = error.__cause__
        raise (cause if isinstance(cause, GitError) else GitFailedError(safe_message(str(error)))) from None


class GitObjects(git.GitCmdObjectDB):
    """Objects that were read before. GitPython's own would keep `git cat-file` running to ask it for each."""

    def __init__(self, root_path: str, commands: GitCommands) -> None:
        super().__init__(root_path, commands)
        self._commands = commands
        self._loaded: dict[bytes, tuple[bytes, bytes]] = {}

    def load(self, hashes: Sequence[str]) -> None:
        """Read these objects."""
        for name, found in zip(hashes, self._commands.objects(hashes), strict=True):
            self._loaded[bytes.fromhex(name)] = found

    def content(self, binsha: bytes) -> bytes:
        """The content of an object that was loaded."""
        return self._loaded[binsha][1]

    def stream(self, binsha: bytes) -> OStream:
        """An object that was loaded, as GitPython reads it."""
        kind, content = self._loaded[binsha]
        return OStream(binsha, kind, len(content), io.BytesIO(content))


class CheckoutRepository(git.Repo):
    """A checkout as GitPython's objects see it."""

    odb: GitObjects

    def __init__(self, runner: Git) -> None:
        self.GitCommandWrapperType = lambda _: GitCommands(runner)  # type: ignore[assignment,misc]
        try:
            super().__init__(runner.folder, odbt=GitObjects, expand_vars=False)
        except (InvalidGitRepositoryError, NoSuchPathError) as error:
            raise UnreadableCommitError(str(error)) from None

    def config_reader(self, *_: object, **__: object) -> NoReturn:
        """Refused: the repository's configuration may include any file, and only git reads it."""
        raise UnreadableCommitError("the configuration is read by git alone")

    @property
    def is_cut(self) -> bool:
        """True if some commits don't have the parents that their objects name, as in a shallow clone."""
        return any((Path(self.common_dir) / name).exists() for name in CUT)


def read_commits(runner: Git, hashes: Sequence[str]) -> list[Commit]:
    """Read these commits; `UnreadableError` where GitPython can't.

    GitPython doesn't know SHA-256 objects, shallow clones, and a few headers and encodings of commits.
    """
    if any(len(name) != SHA1_LETTERS for name in hashes):
        raise UnreadableCommitError("the objects have SHA-256 names")
    with contextlib.closing(CheckoutRepository(runner)) as repository:
        if repository.is_cut:
            raise UnreadableCommitError("the history is cut off")
        try:
            repository.odb.load(hashes)
            return [_commit(repository, git.Commit(repository, bytes.fromhex(name))) for name in hashes]
        except MISREAD as error:
            raise UnreadableCommitError(str(error)) from error


def _commit(repository: CheckoutRepository, found: git.Commit) -> Commit:
    message = found.message
    headers, _, content = repository.odb.content(found.binsha).partition(b"\n\n")
    if b"\nencoding " in headers:  # GitPython overlooks it
        raise UnreadableCommitError(f"the encoding of {found.hexsha}")
    if not isinstance(message, str) or content.decode(found.encoding, "replace") != message:
        raise UnreadableCommitError(f"the headers of {found.hexsha}")
    subject, body = subject_and_body(message)
    return Commit(
        hash=found.hexsha,
        tree=found.tree.hexsha,
        parents=tuple(parent.hexsha for parent in found.parents),
        at=datetime.fromtimestamp(found.committed_date, UTC),
        author=one_line(found.author.name or "", LONGEST_SUBJECT),
        subject=one_line(subject, LONGEST_SUBJECT),
        body=body,
    )


def subject_and_body(message: str) -> tuple[str, str]:
    """A commit message as git divides it: the first paragraph as one line, and the rest."""
    lines = message.partition("\0")[0].split("\n")
    first = _next(lines, 0, blank=False)
    end = _next(lines, first, blank=True)
    subject = " ".join(line.rstrip(" \t\r") for line in lines[first:end])
    return subject, "\n".join(lines[_next(lines, end, blank=False) :])


def _next(lines: Sequence[str], start: int, *, blank: bool) -> int:
    """The number of the next blank or non-blank line; the end of the list if no such line follows."""
    found = (number for number in range(start, len(lines)) if (not lines[number].strip(" \t\r")) == blank)
    return next(found, len(lines))
