"""A disk that is really full: a small file system of its own where this user may mount one, else a limit on files."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil

SIZE = "16m"
ROOMY = "1g"
"""Enough that its daemon has no alert about it while it's empty."""

MOUNTS = Path("/proc/self/mounts")
NAME = re.compile(r"supervisor-tests-(\d+)")
"""The mounts carry the PID of their test. What a killed test left is unmounted by the next one."""


class Disk:
    """The disk that holds a folder. Full and free, as often as a test likes."""

    def __init__(self, folder: Path, *, mounted: bool) -> None:
        self._folder = folder
        self._filler = folder / ".filler"
        self._mounted = mounted

    def fill(self, pid: int) -> None:
        """From now on nothing more can be written there; without a mount, nothing by this process."""
        if not self._mounted:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            return
        with self._filler.open("ab", buffering=0) as filler:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(b"\0" * size)

    def free(self, pid: int) -> None:
        """Somebody made room."""
        if not self._mounted:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            return
        self._filler.unlink(missing_ok=True)


@contextlib.contextmanager
def a_small_disk(folder: Path, size: str = SIZE) -> Iterator[Disk]:
    """A disk for this folder, which is made."""
    folder.mkdir(mode=0o700, parents=True)
    _unmount_left_over()
    name = f"supervisor-tests-{os.getpid()}"
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", name, str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield Disk(folder, mounted=mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _unmount_left_over() -> None:
    for line in MOUNTS.read_text().splitlines() if MOUNTS.exists() else ():
        name, folder, *_ = line.split()
        found = NAME.fullmatch(name)
        if found and not psutil.pid_exists(int(found[1])):
            subprocess.run(["umount", "-l", folder], capture_output=True)
