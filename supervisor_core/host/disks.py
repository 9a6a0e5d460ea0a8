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
    found = psutil.disk_usage(str(folder))
    return DiskUsage(found.total, found.used, found.free, found.percent, round(100.0 - found.percent, 1))


# Locks and memory maps of a ledger are not to be trusted on these.
REMOTE = frozenset(
    {
        "9p",
        "afpfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "webdav",
    }
)
REMOTE_OPTION = "remote"
"""Windows' mark of a network drive."""


def remote_kind(folder: Path, mounts: Iterable[Any] | None = None) -> str:
    """The kind of network drive that the folder is on; empty for a local disk, or if the system doesn't say.

    It only reads psutil's list of mounts, so it doesn't hang with the drive.
    """
    found: Any = None
    for mount in psutil.disk_partitions(all=True) if mounts is None else mounts:
        deeper = found is None or len(mount.mountpoint) >= len(found.mountpoint)
        if folder.is_relative_to(mount.mountpoint) and deeper:
            found = mount  # of two mounted over each other the later one counts
    if found is None:
        return ""
    if found.fstype.lower() in REMOTE:
        return str(found.fstype)
    return "network drive" if REMOTE_OPTION in found.opts.split(",") else ""


VMSTAT = Path("/proc/vmstat")
"""The count of the whole host, including kills within control groups."""

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
EVENTS = "memory.events"
"""The count of our own control group, if the host's is hidden. Workers are in the group of their starter."""

WORD = "oom_kill"


def memory_kills() -> int | None:
    """The count of out-of-memory kills; None if the system doesn't say."""
    found = _count(VMSTAT)
    return found if found is not None else _count(_own_group() / EVENTS)


def _own_group() -> Path:
    try:
        lines = OWN_GROUP.read_text().splitlines()
    except (OSError, ValueError):
        return GROUPS
    place = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    return GROUPS / place.lstrip("/")


def _count(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        name, _, number = line.partition(" ")
        if name == WORD and number.isdecimal():
            return int(number)
    return None
