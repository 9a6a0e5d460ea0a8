"""What kind of disk a folder lies on: local, or somebody else's over a network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import psutil

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
"""How Windows marks a drive that lies elsewhere."""


class Mount(Protocol):
    """One mounted file system."""

    @property
    def mountpoint(self) -> str:
        """Where it is."""

    @property
    def fstype(self) -> str:
        """What it is."""

    @property
    def opts(self) -> str:
        """How it is mounted, words with commas between."""


def remote_kind(folder: Path, mounts: Iterable[Mount] | None = None) -> str:
    """What kind of network drive the folder is on; empty for a local disk, and where the system does not say.

    Only the list of mounts is read, so a drive that hangs hangs nobody here.
    """
    found: Mount | None = None
    for mount in psutil.disk_partitions(all=True) if mounts is None else mounts:
        deeper = found is None or len(mount.mountpoint) >= len(found.mountpoint)
        if folder.is_relative_to(mount.mountpoint) and deeper:
            found = mount  # of two mounted over each other the later one counts
    if found is None:
        return ""
    if found.fstype.lower() in REMOTE:
        return found.fstype
    return "network drive" if REMOTE_OPTION in found.opts.split(",") else ""
