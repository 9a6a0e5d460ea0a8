"""The newest output of workers in code blocks: the lines that fit, and where to find the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.views.blocks import Content, context, join_lines, section
from bot.views.text import escape, fit, in_code
from supervisor_core.diagnosis.worker_logs import WorkerLog

ROOM, HEAD = 12_300, 330
"""Characters of all texts of one message, and of the one above each worker's lines. What is left is for the lines."""

WORKERS = 12
"""With lines on the message; those of the others are in the file."""

PIECE = 2800
"""Characters of one code block."""

LINE = 1000  # characters of one line on a message
TEXT = 2800  # characters of the text without blocks
PATH, PATH_IN_FILE, PROBLEM = 120, 300, 400

FILE_BYTES = 1_800_000
"""Of the lines of all workers in the file: less than a file may have, so that the newest are never cut."""


def logs(found: Sequence[WorkerLog], *, filed: bool) -> Content:
    """The message; `filed`: what does not fit comes as a file."""
    shown = found[:WORKERS]
    room = _room(len(shown))
    blocks, text = [], []
    for written in shown:
        lines = _newest(_lines(written, room), room)
        head = _head(written, len(lines))
        blocks += [section(head), *(section(f"```{piece}```") for piece in join_lines(lines, PIECE))]
        text += [head, *_newest(lines, TEXT // (2 * len(shown)))]
    if len(found) > len(shown):
        blocks.append(context(f"… and {len(found) - len(shown)} more workers"))
    if filed:
        blocks.append(context("All requested lines are in a file in your direct messages with the bot."))
    return {"text": fit("\n".join(text), TEXT), "blocks": blocks}


def fits(found: Sequence[WorkerLog]) -> bool:
    """True where the message has room for every line as it was written."""
    room = _room(len(found))
    return len(found) <= WORKERS and all(
        len(_newest(_lines(each, room), room)) == len(each.lines)
        and max((len(escape(line)) for line in each.lines), default=0) <= min(LINE, room)
        for each in found
    )


def logs_file(found: Sequence[WorkerLog]) -> str:
    room = FILE_BYTES // max(len(found), 1)
    parts = []
    for written in found:
        kept, size = 0, 0
        for line in reversed(written.lines):
            size += len(line.encode(errors="backslashreplace")) + 1
            if size > room:
                break
            kept += 1
        lines = written.lines[len(written.lines) - kept :]
        cut = f", the last {kept} of {len(written.lines)} lines" if kept < len(written.lines) else ""
        head = f"==> {written.worker_id}: {fit(written.path, PATH_IN_FILE)}{cut} <=="
        parts.append("\n".join([head, *(lines or [written.problem or "(no output yet)"])]))
    return "\n\n".join(parts) + "\n"


def _head(written: WorkerLog, shown: int) -> str:
    name, path = f"*{escape(written.worker_id)}*", f"`{fit(escape(written.path.replace('`', '')), PATH)}`"
    if written.problem:
        return f":warning: {name}: can't read its log {path}. {fit(escape(written.problem), PROBLEM)}"
    if written.nothing:
        return f"{name} has no output yet ({path})."
    count = len(written.lines)
    if shown < count:
        return f"{name}: last {shown} of {count} lines, as many as fit · {path}, {_size(written)}"
    lines = "last line" if count == 1 else f"last {count} lines"
    return f"{name}: {lines} · {path}, {_size(written)}"


def _room(workers: int) -> int:
    shown = min(max(workers, 1), WORKERS)
    return (ROOM - shown * HEAD) // shown


def _lines(written: WorkerLog, room: int) -> list[str]:
    return [in_code(line, min(LINE, room)) or " " for line in written.lines]


def _newest(lines: Sequence[str], room: int) -> list[str]:
    """The newest lines that fit into so many characters together, at least one where there are any."""
    kept, size = 0, 0
    for line in reversed(lines):
        size += len(line) + 1
        if kept and size > room:
            break
        kept += 1
    return list(lines[len(lines) - kept :])


def _size(written: WorkerLog) -> str:
    size = float(written.size_bytes)
    for unit in ("bytes", "kB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} MB"
