"""How quick a preview is in a checkout of 50,000 commits, next to the git without which there is none."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.rows import Row, rows_of
from tests.benchmarks.timing import in_turns, milliseconds
from tests.support.code.repositories import huge
from tests.support.homes import Home, a_home, demo_command

COMMITS = 50_000
FILES = 3_000
COMING = 1_000
ROUNDS = 10
FLOOR = "`git worktree add --detach`, and `remove`"
ROLLBACK = "`supervisor send 'rollback 3' --preview --json`"
UPDATE = f"`supervisor send update --preview --json`, {COMING:,} commits to come in"


def measure() -> list[Row]:
    """One home with a daemon and one worker; its checkout is behind its remote all the time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkout = huge(folder / "code", COMMITS, FILES, COMING).checkout.folder
        worker = {"command": demo_command(), "start_grace_seconds": 0.2, "code": {"path": str(checkout)}}
        with a_home(folder / "home", {"OrionMX": worker}) as home:
            home.start_daemon()
            return _previews(home, checkout)


def _previews(home: Home, checkout: Path) -> list[Row]:
    script = str(Path(sys.executable).with_name("supervisor"))
    previews = {
        ROLLBACK: [script, "send", "rollback 3", "--preview", "--json"],
        UPDATE: [script, "send", "update", "--preview", "--json"],
    }
    first = {f"{UPDATE}, the first time": [milliseconds(previews[UPDATE], home.environ, home.folder)]}
    floors = _floors(checkout, home.folder / "tried")
    for program in (*floors.values(), *previews.values()):
        subprocess.run(program, cwd=home.folder, env=home.environ, check=True, capture_output=True)
    times = in_turns({**floors, **previews}, home.environ, home.folder, ROUNDS)
    return rows_of({**times, **first}, FLOOR, dict.fromkeys(floors, "git"))


def _floors(checkout: Path, tried: Path) -> dict[str, Sequence[str]]:
    git = [shutil.which("git") or "git", "-C", str(checkout)]
    add = shlex.join([*git, "worktree", "add", "--quiet", "--detach", str(tried)])
    remove = shlex.join([*git, "worktree", "remove", str(tried)])
    return {
        "`git log -3 --first-parent`": [*git, "log", "-3", "--first-parent"],
        "`git fetch`, nothing new": [*git, "fetch", "--quiet"],
        FLOOR: ["/bin/sh", "-c", f"{add} && {remove}"],
    }
