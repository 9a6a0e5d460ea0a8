"""What an attacker puts in place of a file on the shared drive. Each takes the path, and a private file elsewhere."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def a_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def a_hard_link(path: Path, secret: Path) -> None:
    path.hardlink_to(secret)


def a_fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path, _: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{folder}/{path.name}")  # a socket's path may not be long
    finally:
        os.close(folder)


def a_folder(path: Path, _: Path) -> None:
    path.mkdir()


def a_full_folder(path: Path, _: Path) -> None:
    (path / "inside").mkdir(parents=True)


def a_link_to_a_device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def a_giant(path: Path, _: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)
