"""The command line without the half second in which it imports: each command is a process, forked with that done.

`python -m tests.support.warm_shell` reads a line of JSON for each command, and answers with another. A daemon that
`start` spawns there is a process of its own like any other, forked in the same way; with `cold` it is the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

COMMANDS = ("start", "stop", "restart", "status", "run")
MODULES = (
    *(f"supervisor_core.cli.{name}_command" for name in COMMANDS),
    "supervisor_core.cli.edge",
    "supervisor_core.cli.without_daemon",
    "supervisor_core.ledger.store",
    "supervisor_core.adapters.head_file",
    "encodings.idna",
)


class Done(NamedTuple):
    """What came of a command."""

    returncode: int
    stdout: str
    stderr: str


class WarmShell:
    """`with WarmShell(folder, environ) as shell: shell("status", "--json")`; for one thread."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        words = [sys.executable, "-m", "tests.support.warm_shell"]
        self._process = subprocess.Popen(
            words, cwd=folder, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, *words: str, cold: bool = False) -> Done:
        """Run the command line to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"words": words, "cold": cold}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the shell ended with {self._process.wait()}"
        return Done(*json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(30)


def _serve() -> None:
    for name in MODULES:
        import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        answer = json.dumps(_run(request["words"], cold=request["cold"]))
        os.write(1, answer.encode() + b"\n")


def _run(words: Sequence[str], *, cold: bool) -> Done:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(out, err)
            _be(words, cold=cold)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return Done(os.waitstatus_to_exitcode(status), *texts)


def _become(out: IO[bytes], err: IO[bytes]) -> None:
    """Nothing of the shell stays open in what it starts: neither its pipes nor the files of a command's words."""
    null = os.open(os.devnull, os.O_RDWR)
    for here, there in ((null, 0), (out.fileno(), 1), (err.fileno(), 2)):
        os.dup2(here, there)
    os.closerange(3, 64)


def _be(words: Sequence[str], *, cold: bool) -> None:
    from supervisor_core.cli import main
    from supervisor_core.runtime import starting_daemon

    code = 70
    try:
        if not cold:
            setattr(starting_daemon, "_spawn", _forked)  # noqa: B010 (a door that is not for others to use)
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


class _Forked(NamedTuple):
    pid: int

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _forked(state_dir: Path, words: Sequence[str]) -> _Forked:
    """What `start` does, but for the exec: a session of its own, and its words in the same file."""
    from supervisor_core.runtime.starting_daemon import OUTPUT_NAME

    child = os.fork()
    if child:
        return _Forked(child)
    os.setsid()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(state_dir / OUTPUT_NAME, "wb", opener=lambda path, _: os.open(path, flags, 0o600)) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    _be(words[words.index("run") :], cold=True)
    raise AssertionError("it has ended with the line before")


if __name__ == "__main__":
    _serve()
