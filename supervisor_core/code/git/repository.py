"""GitPython's commands for reading a checkout, each run by our own runner.

GitPython itself starts git with our whole environment, keeps processes running to read object by object, and reads the
repository's configuration in this process. Here git gets the runner's environment, settings, limits and process group;
no git process outlives its call; and only git reads the configuration.

This is the only module that imports GitPython. It is slow to import, so import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from supervisor_core.code.git.runner import READING_SECONDS, Git, GitError, GitFailedError, safe_message

# GitPython runs `git version` when it's imported, without a limit and with our environment. This isn't a program, so
# nothing runs; GitPython is quiet about that, and goes on with the `git` that it is given later.
os.environ.update({"GIT_PYTHON_GIT_EXECUTABLE": os.devnull, "GIT_PYTHON_REFRESH": "quiet"})

import git
from git.exc import GitCommandError


class GitCommands(git.Git):
    """Git's commands as methods, each run to its end by our runner."""

    def __init__(self, runner: Git) -> None:
        super().__init__(runner.folder)
        self._runner = runner

    def execute(  # type: ignore[override]  # what isn't listed, such as a shell or an environment, isn't accepted
        self, command: Sequence[str], *, kill_after_timeout: float | None = None
    ) -> str:
        """Run `git`, whatever program `command` begins with, and return its output.

        A command that fails raises GitPython's own error, as its methods expect; its cause is ours. One that is late
        raises ours.
        """
        _, *words = command
        seconds = READING_SECONDS if kill_after_timeout is None else kill_after_timeout
        ran = self._runner.run(*words, timeout=seconds)
        try:
            return self._runner.answer(words[0], ran, seconds).removesuffix("\n")
        except GitError as error:
            if ran.ok or ran.timed_out:
                raise
            raise GitCommandError(list(words), ran.exit_code, ran.errors, ran.output) from error


@contextlib.contextmanager
def open_commands(runner: Git) -> Iterator[GitCommands]:
    """Open the commands of a checkout, which raise our own errors."""
    try:
        yield GitCommands(runner)
    except GitCommandError as error:
        cause = error.__cause__
        raise (cause if isinstance(cause, GitError) else GitFailedError(safe_message(str(error)))) from None
