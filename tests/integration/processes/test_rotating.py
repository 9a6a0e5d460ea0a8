"""What workers print fills no disk, and reaches the drive in order."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from supervisor_core.processes.output.capture import PIECE_BYTES
from supervisor_core.processes.output.files import read_output_end
from tests.support.homes import a_home
from tests.support.processes.worker_outputs import LINE_BYTES, counting, everything, in_order, numbers
from tests.support.waiting import wait_until

MAX_BYTES, BACKUPS = 1_000_000, 2


def test_output_is_cut_at_its_limit_and_the_newest_two_megabytes_are_kept(tmp_path: Path) -> None:
    now, limits = tmp_path / "now", {"max_bytes": MAX_BYTES, "backups": BACKUPS}
    workers = {"Steady": counting(5e5, 5.5, str(now)), "Burst": counting(2e7, 1.0, str(now))}
    with a_home(tmp_path / "home", workers, logging=limits) as home:
        local, drive = home.state_dir / "output", home.nas / "05_LOGS" / "workers"
        home.start_daemon()
        now.touch()
        for worker_id in workers:
            wait_until(partial(_has_finished, local / f"{worker_id}.log"), 60, f"{worker_id} has printed all")
        for worker_id in workers:
            files = list(local.glob(f"{worker_id}.log*"))
            assert 1 < len(files) <= 1 + BACKUPS
            wait_until(partial(_has_finished, drive / f"{worker_id}.log"), 10, f"the drive has all of {worker_id}")
            for folder in (local, drive):
                found = numbers(everything(folder / f"{worker_id}.log"))
                assert found == sorted(set(found)), f"{worker_id} in {folder}"
                if folder == local or worker_id == "Steady":  # the drive gets what it can of a burst
                    printed = found[-1] * LINE_BYTES  # on a busy machine the burst is a small one
                    assert len(found) * LINE_BYTES >= min(BACKUPS * (MAX_BYTES - PIECE_BYTES), printed)
                    assert in_order(found), f"{worker_id} in {folder}"
            assert max(path.stat().st_size for path in drive.glob(f"{worker_id}.log*")) <= MAX_BYTES


def _has_finished(path: Path) -> bool:
    """Whether its last line was captured. It is in an older file where a full one was emptied as a whole."""
    return path.exists() and read_output_end(path, 5).data == b"done\n"


def test_a_pass_keeps_output_small_and_brings_it_to_the_drive(tmp_path: Path) -> None:
    workers = {"North": counting(1e6, 0.2)}
    with a_home(tmp_path / "home", workers, logging={"max_bytes": 20_000, "backups": 2}) as home:
        there = home.nas / "05_LOGS" / "workers" / "North.log"
        assert home.supervisor("once", "--heal").returncode == 0
        wait_until(partial(_has_finished, home.output("North")), 30, "it has printed all")
        assert home.supervisor("once").returncode == 0
        assert home.output("North").stat().st_size < 20_000 + 4096
        assert _has_finished(there)
        assert everything(there).endswith(everything(home.output("North"))[-30_000:])
