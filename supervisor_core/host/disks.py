"""The space on a disk, the kind of disk below a folder, and the kernel's count of out-of-memory kills.

The count only grows, until the host restarts. It names nobody: comparing it before and after a worker's life tells
whether such a kill can have been its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import psutil


class DiskUsage(NamedTuple):
    """The space in bytes. `free` is the space that we can use, so it may be less than `total` minus `used`."""

    total: int
    used: int
    free: int
    percent: float
    """The used share of the space that we can use."""
    percent_free: float


def disk_space(folder: Path) -> DiskUsage:
    """The space on the disk of this folder. The call may hang as long as the disk does."""
    usage = psutil.disk_usage(str(folder))
    return DiskUsage(usage.total, usage.used, usage.free, usage.percent, round(100.0 - usage.percent, 1))


REMOTE = frozenset(
    {"9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs"}
    | {"fuse.sshfs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs", "webdav"}
)
"""On these, locks and memory maps of a ledger can't be trusted."""


def remote_kind(folder: Path, mounts: Iterable[Any] | None = None) -> str:
    """The kind of network drive that the folder is on; empty for a local disk, or if the system doesn't say.

    It only reads psutil's list of mounts, so it doesn't hang with the drive.
    """
    all_mounts = psutil.disk_partitions(all=True) if mounts is None else mounts
    above = [mount for mount in all_mounts if folder.is_relative_to(mount.mountpoint)]
    if not above:
        return ""
    mount = max(reversed(above), key=lambda mount: len(mount.mountpoint))  # of two at the same place, the later one
    if mount.fstype.lower() in REMOTE:
        return str(mount.fstype)
    return "network drive" if "remote" in mount.opts.split(",") else ""  # Windows' mark


VMSTAT = Path("/proc/vmstat")
"""The count of the whole host, including kills within control groups."""

GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""The count of our own control group, if the host's is hidden. Workers are in the group of their starter."""


def memory_kills() -> int | None:
    """The count of out-of-memory kills; None if the system doesn't say."""
    group = next((line[3:] for line in _lines(OWN_GROUP) if line.startswith("0::")), "")
    for path in (VMSTAT, GROUPS / group.lstrip("/") / "memory.events"):
        for line in _lines(path):
            name, _, number = line.partition(" ")
            if name == "oom_kill" and number.isdecimal():
                return int(number)
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []
