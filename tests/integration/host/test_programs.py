"""Programs that run to their end: their words kept within bounds, their time limited, their whole group ended."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from supervisor_core.host.programs import ProgramError, ProgramResult, run_command
from tests.support.waiting import wait_until


def python(code: str, **options: object) -> ProgramResult:
    return run_command([sys.executable, "-c", code], **options)  # type: ignore[arg-type]


def test_what_it_says_and_how_it_ends_is_told() -> None:
    ran = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (ran.exit_code, ran.output, ran.errors, ran.timed_out, ran.ok) == (3, "out\n", "err\n", False, False)
    assert python("").ok


def test_one_that_dies_by_a_signal_says_which() -> None:
    assert python("import os; os.kill(os.getpid(), 9)").exit_code == -9


def test_nothing_goes_through_a_shell_and_nothing_is_read_from_a_terminal(tmp_path: Path) -> None:
    ran = run_command(["cat", "-", "$HOME; *"], cwd=tmp_path)
    assert "$HOME; *" in ran.errors
    assert ran.output == ""


def test_it_reads_what_it_is_given_and_need_not() -> None:
    assert run_command(["cat"], given=b"one\ntwo").output == "one\ntwo"
    much = b"x" * 5_000_000
    assert python("import sys; print(len(sys.stdin.read()))", given=much).output == "5000000\n"
    assert python("print(1)", given=much).ok
    assert python("import time; time.sleep(99)", given=much, timeout=0.5).timed_out


def test_its_environment_is_what_it_is_given(tmp_path: Path) -> None:
    ran = python("import os; print(sorted(os.environ), os.getcwd())", env={"ONLY": "1"}, cwd=tmp_path)
    assert ran.output.startswith("['LC_CTYPE', 'ONLY']") or ran.output.startswith("['ONLY']")
    assert str(tmp_path) in ran.output


def test_one_that_does_not_exist_is_told_from_a_folder_that_does_not(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"program nonsense-program isn't installed\. Install"):
        run_command(["nonsense-program"])
    with pytest.raises(ProgramError, match="no such folder"):
        run_command([sys.executable], cwd=tmp_path / "nowhere")
    (tmp_path / "script").write_text("")
    with pytest.raises(ProgramError, match="can't run: Permission denied"):
        run_command([str(tmp_path / "script")])


def test_a_flood_of_words_is_kept_from_both_ends() -> None:
    ran = python("print('first'); print('x' * 50_000_000); print('last')", keep_bytes=1000)
    assert ran.ok
    assert ran.output.startswith("first\n")
    assert ran.output.endswith("last\n")
    assert "bytes left out" in ran.output
    assert len(ran.output) < 1100
    assert ran.truncated


def test_who_only_says_that_something_was_left_out_has_nothing_left_out() -> None:
    ran = python("print('… 5 bytes left out …'); import sys; print('x' * 5000, file=sys.stderr)", keep_bytes=1000)
    assert ran.output == "… 5 bytes left out …\n"
    assert not ran.truncated


def family(pids: Path) -> list[int]:
    return [int(word) for word in pids.read_text().split()]


FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.{answer})
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99)"
child = subprocess.Popen([sys.executable, "-c", deaf])
open({pids!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
print("begun", flush=True)
{then}
"""


@pytest.mark.parametrize("answer", ["SIG_DFL", "SIG_IGN"])
def test_one_that_is_late_ends_with_its_whole_group_whatever_it_ignores(tmp_path: Path, answer: str) -> None:
    pids = tmp_path / "pids"
    ran = python(FAMILY.format(answer=answer, pids=str(pids), then="time.sleep(99)"), timeout=1.5)
    assert (ran.timed_out, ran.ok, ran.output) == (True, False, "begun\n")
    assert ran.exit_code == (-15 if answer == "SIG_DFL" else -9)
    wait_until(lambda: not any(map(alive, family(pids))), 5, "all of them are gone")


def test_what_a_program_leaves_behind_in_its_group_ends_with_it(tmp_path: Path) -> None:
    """It holds the pipe open, too, and nobody waits for that."""
    pids, begun = tmp_path / "pids", time.monotonic()
    ran = python(FAMILY.format(answer="SIG_DFL", pids=str(pids), then=""), timeout=60)
    assert (ran.exit_code, ran.output, ran.timed_out) == (0, "begun\n", False)
    wait_until(lambda: not any(map(alive, family(pids))), 5, "all of them are gone")
    assert time.monotonic() - begun < 30


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_no_descriptor_and_no_zombie_is_left() -> None:
    python("")
    descriptors, children = len(os.listdir("/proc/self/fd")), set(psutil.Process().children())
    for _ in range(5):
        python("print(1)")
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert set(psutil.Process().children()) <= children
