"""The code repository of the demo's worker: a bare `origin.git` with a history, and a clone of it.

The newest version is in `program/`; earlier ones are made by reverting the changes of each commit. Git runs without the
user's configuration, hooks and prompts, so the commits have the same hashes on every machine.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROGRAM = Path(__file__).parent / "program"
FILES = ("README.md", "requirements.txt", "watcher.py", "watcher.yaml")
ANN, BEN = "Ann Archer <ann@example.org>", "Ben Brook <ben@example.org>"

# The author, the time in seconds, the message, and each change: the file, the new text and the old one. None: no file.
HISTORY: tuple[tuple[str, int, str, tuple[tuple[str, str, str | None], ...]], ...] = (
    (ANN, 1768210200, "Move files from one folder to another", ()),
    (
        BEN,
        1768313100,
        "List the dependencies\n\nThe watcher failed to start on a new host without PyYAML.",
        (
            ("requirements.txt", "PyYAML>=6\n", None),
            ("README.md", ", dependencies in `requirements.txt`", ""),
        ),
    ),
    (
        BEN,
        1770049200,
        "Skip files that are still being written\n\nOnly half of the report of January 30 was moved.",
        (
            ("watcher.py", 'UNFINISHED = (".part", ".tmp")  # still being written\n', ""),
            ("watcher.py", "        files = [file for file in files if file.suffix not in UNFINISHED]\n", ""),
        ),
    ),
    (
        BEN,
        1770281400,
        "Look twice a second, not every two seconds",
        (("watcher.yaml", "poll_seconds: 0.5\n", "poll_seconds: 2\n"),),
    ),
)
BRANCH = "main"
PASSED_ON = ("PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT", "COMSPEC")
"""The environment variables that git gets: the paths of programs and temporary files, and those that Windows needs."""

SCRUBBED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C",
}


class Repository(NamedTuple):
    origin: Path
    checkout: Path


def make_repository(folder: Path) -> Repository:
    """Create both in this folder. Errors are those of `subprocess.run`."""
    made = Repository(folder / "origin.git", folder / "checkout")
    _git("init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}", str(made.origin))
    _git("fast-import", "--quiet", cwd=made.origin, stdin="".join(_stream()).encode())
    _git("clone", "--quiet", "--template=", str(made.origin), str(made.checkout))
    return made


def git_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.upper() in PASSED_ON} | SCRUBBED


def _stream() -> Iterator[str]:
    """The history as input of `git fast-import`. Each commit has all of its files."""
    files = {name: (PROGRAM / name).read_text(encoding="utf-8") for name in FILES}
    versions = []
    for *_, changes in reversed(HISTORY):
        versions.append(dict(files))
        for name, new, old in changes:
            if files[name].count(new) != 1:
                raise ValueError(f"{name} has {new!r} {files[name].count(new)} times, not once")
            if old is None:
                del files[name]
            else:
                files[name] = files[name].replace(new, old)
    for (author, seconds, message, _), version in zip(HISTORY, reversed(versions), strict=True):
        yield f"commit refs/heads/{BRANCH}\nauthor {author} {seconds} +0000\ncommitter {author} {seconds} +0000\n"
        yield f"data {len(message.encode()) + 1}\n{message}\n\ndeleteall\n"
        for name, text in version.items():
            yield f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n"


def _git(*arguments: str, cwd: Path | None = None, stdin: bytes = b"") -> None:
    subprocess.run(  # noqa: S603 (our own words)
        ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],  # noqa: S607 (the user's git)
        cwd=cwd,
        env=git_environment(),
        input=stdin,
        capture_output=True,
        timeout=30.0,
        start_new_session=True,  # no terminal to ask at, and a Ctrl-C there is not meant for git
        check=True,
    )
