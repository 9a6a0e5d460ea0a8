"""How quick a preview is in a checkout of 50,000 commits, next to the git without which there is none."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.timing import in_turns, milliseconds, table
from tests.support.code.repositories import huge
from tests.support.homes import Home, a_home, demo_command

COMMITS = 50_000
FILES = 3_000
COMING = 1_000
ROUNDS = 10
FLOOR = "git worktree add --detach, and remove"
ROLLBACK = "supervisor send 'rollback 3' --preview --json"
UPDATE = f"supervisor send update --preview --json, {COMING:,} commits to come in"


def measure() -> str:
    """One home with a daemon and one worker; its checkout is behind its remote all the time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.perf_counter()
        checkout = huge(folder / "code", COMMITS, FILES, COMING).checkout.folder
        made = f"{COMMITS:,} commits and {FILES:,} files, made in {time.perf_counter() - begun:.1f} s."
        worker = {"command": demo_command(), "start_grace_seconds": 0.2, "code": {"path": str(checkout)}}
        with a_home(folder / "home", {"OrionMX": worker}) as home:
            home.start_daemon()
            return f"{_previews(home, checkout)}\n\n{made}"


def _previews(home: Home, checkout: Path) -> str:
    script = str(Path(sys.executable).with_name("supervisor"))
    previews = {
        ROLLBACK: [script, "send", "rollback 3", "--preview", "--json"],
        UPDATE: [script, "send", "update", "--preview", "--json"],
    }
    first = {f"{UPDATE}, the first time": [milliseconds(previews[UPDATE], home.environ, home.folder)]}
    floors = _floors(checkout, home.folder / "tried")
    for program in floors.values():
        assert not _refusal(home, program), program
    refusals = {name: words for name, program in previews.items() if (words := _refusal(home, program))}
    built = {name: program for name, program in previews.items() if name not in refusals}
    times = in_turns({**floors, **built}, home.environ, home.folder, ROUNDS)
    missing = [f"Not built: `{name}` says: {words}" for name, words in refusals.items()]
    return "\n\n".join([table({**times, **({} if UPDATE in refusals else first)}, FLOOR), *missing])


def _floors(checkout: Path, tried: Path) -> dict[str, Sequence[str]]:
    git = [shutil.which("git") or "git", "-C", str(checkout)]
    add = shlex.join([*git, "worktree", "add", "--quiet", "--detach", str(tried)])
    remove = shlex.join([*git, "worktree", "remove", str(tried)])
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "git log -3 --first-parent": [*git, "log", "-3", "--first-parent"],
        "git fetch, nothing new": [*git, "fetch", "--quiet"],
        FLOOR: ["/bin/sh", "-c", f"{add} && {remove}"],
    }


def _refusal(home: Home, program: Sequence[str]) -> str:
    """Why a program fails, the last line of its words; empty where it does not."""
    done = subprocess.run(program, cwd=home.folder, env=home.environ, capture_output=True, text=True)
    lines = (done.stderr or done.stdout).strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""
