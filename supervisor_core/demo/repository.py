"""The code repository of the demo's worker: a bare `origin.git` with a history, and a clone of it.

Git runs without the user's configuration, hooks and prompts, so the commits have the same hashes on every machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor_core.demo.history import HISTORY, DemoCommit, versions

BRANCH = "main"
GIT_SECONDS = 30.0
"""The timeout of a git command; each takes a few milliseconds."""

OUTPUT_CHARACTERS = 2000
KEPT = ("PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT", "COMSPEC")
"""The environment variables that git gets: the paths of programs and temporary files, and those that Windows needs."""

SCRUBBED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C",
}


class RepositoryError(Exception):
    """The demo's code repository can't be created."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The folders of the origin and of its clone."""

    origin: Path
    checkout: Path


def make_repository(folder: Path, history: Sequence[DemoCommit] = HISTORY) -> Repository:
    """Create both in this folder; `RepositoryError` has git's output if that fails."""
    made = Repository(folder / "origin.git", folder / "checkout")
    _git("init", "--quiet", "--bare", "--template=", str(made.origin))
    _git("symbolic-ref", "HEAD", f"refs/heads/{BRANCH}", cwd=made.origin)
    _git("fast-import", "--quiet", cwd=made.origin, given=b"".join(_stream(history)))
    _git("clone", "--quiet", "--template=", str(made.origin), str(made.checkout))
    return made


def git_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of git."""
    return {name: value for name, value in environ.items() if name.upper() in KEPT} | SCRUBBED


def _stream(history: Sequence[DemoCommit]) -> Iterator[bytes]:
    """The history as input of `git fast-import`. Each commit has all of its files."""
    for commit, files in zip(history, versions(history), strict=True):
        who = f"{commit.author} {int(commit.at.timestamp())} +0000"
        yield f"commit refs/heads/{BRANCH}\nauthor {who}\ncommitter {who}\n".encode()
        yield _data(f"{commit.message}\n") + b"deleteall\n"
        for name, text in files.items():
            yield f"M 100644 inline {name}\n".encode() + _data(text)


def _data(text: str) -> bytes:
    content = text.encode()
    return b"data %d\n%s\n" % (len(content), content)


def _git(*words: str, cwd: Path | None = None, given: bytes = b"") -> None:
    """Run git and wait for it."""
    command = ["git", "-c", f"core.hooksPath={os.devnull}", *words]
    try:
        done = subprocess.run(  # noqa: S603 (our own words)
            command,
            cwd=cwd,
            env=git_environment(),
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=GIT_SECONDS,
            start_new_session=True,  # no terminal to ask at, and a Ctrl-C there is not meant for git
            check=False,
        )
    except FileNotFoundError:
        raise RepositoryError("git isn't on the PATH. Install git and try again.") from None
    except OSError as error:
        raise RepositoryError(f"git can't be run: {error.strerror}.") from None
    except subprocess.TimeoutExpired as error:
        said = _said(error.output or b"")
        raise RepositoryError(f"`git {words[0]}` didn't finish within {GIT_SECONDS:g} s. {said}") from None
    if done.returncode != 0:
        raise RepositoryError(f"`git {words[0]}` failed with exit code {done.returncode}. {_said(done.stdout)}")


def _said(output: bytes) -> str:
    text = output.decode(errors="replace").strip()[-OUTPUT_CHARACTERS:]
    return f"Its output:\n{text}" if text else "It had no output."
