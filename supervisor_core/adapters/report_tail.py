"""The end of a log, however big it is and whatever is in it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters import drive_files
from supervisor_core.adapters.open_folder import End, OpenFolder
from supervisor_core.adapters.report_masking import Masking
from supervisor_core.domain.texts import one_line

READ_BYTES = 256 * 1024
"""Of the end: room for fifty long lines. A line that is longer than this is shown from somewhere in its middle."""

LONGEST_LINE = 2000  # characters


class Tail(NamedTuple):
    """The last lines, and how big the whole is."""

    lines: list[str]
    size_bytes: int


def read_end(path: Path, most: int = READ_BYTES, *, root: Path | None = None) -> End:
    """The last bytes of a regular file, so many at most; for a file on the drive, give the drive's root.

    May hang as long as its disk does, but waits for no pipe and follows no link.
    """
    if root is not None:
        return drive_files.read_end(root, path, most)
    with OpenFolder.at(path.parent, shared=False) as folder:
        return folder.read_end(path.name, most)


def last_lines(end: End, count: int, masking: Masking) -> Tail:
    """So many lines, without secrets, each on one line. What is masked is masked before anything is cut off."""
    text = masking.text(end.data.decode(errors="replace"))
    if end.cut:
        text = _whole_lines(text, masking.longest)
    lines = text.removesuffix("\n").split("\n")[-count:] if text else []
    return Tail([one_line(line.rstrip("\r"), LONGEST_LINE) for line in lines], end.size)


def _whole_lines(text: str, longest_secret: int) -> str:
    """From the first line that is whole; of a single line what can't be the second half of a secret."""
    _, found, rest = text.partition("\n")
    return rest if found and rest else text[longest_secret:]
