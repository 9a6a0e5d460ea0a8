"""Commits and files of a change of code: linked, cut and counted. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bot.views.text import in_span, inert
from supervisor_core.code.change_plan import count, short

Details = Mapping[str, Any]

LINE = 200
"""Characters of a subject or a path that somebody else wrote."""

AUTHOR = 60  # characters

_HASH = re.compile(r"[0-9a-f]{7,64}", re.ASCII)
_PAGE = re.compile(r"https://[\w.:/~-]+/", re.ASCII)


def commit_ref(commit: object, page: object) -> str:
    """A commit by its short hash; a link where the address of its page is known."""
    name, address = str(commit or ""), str(page or "")
    if _HASH.fullmatch(name) and _PAGE.fullmatch(address):
        return f"<{address}{name}|{short(name)}>"
    return in_span(short(name), AUTHOR)


def commit_lines(commits: Sequence[Details], total: int, most: int, page: object, rest: str = "") -> list[str]:
    """A line for each of the first commits; `rest` says where the others are."""
    lines = [commit_line(each, page) for each in commits[:most]]
    return [*lines, f"• … and {total - len(lines)} more{rest}"] if total > len(lines) else lines


def commit_line(commit: Details, page: object) -> str:
    """`• 1a2b3c4 Read faster · Ada`."""
    merge = " (merge)" if commit.get("merge") else ""
    author = f" · {inert(str(commit['author']), AUTHOR)}" if commit.get("author") else ""
    subject = inert(str(commit.get("subject") or ""), LINE)
    return f"• {commit_ref(commit.get('hash'), page)} {subject}{merge}{author}"


def file_line(change: Details) -> str:
    was = f" (was {in_span(str(change['was']), LINE)})" if change.get("was") else ""
    return f"• {inert(str(change.get('change') or ''), AUTHOR)} {_path(change)}{was}"


def _path(change: Details) -> str:
    """A file with its added and removed lines, where they were counted: `a.py +12 -3`."""
    path, added, removed = in_span(str(change.get("path") or ""), LINE), change.get("added"), change.get("removed")
    return f"{path} +{added} -{removed}" if isinstance(added, int) and isinstance(removed, int) else path


def files_text(files: Sequence[Details], total: int, most: int, rest: str = "") -> str:
    """`3 files: a.py +12 -3, b.py +1 -1 and 1 more`; empty without files."""
    if not total:
        return ""
    named = ", ".join(_path(each) for each in files[:most])
    more = f" and {total - min(len(files), most)} more{rest}" if total > min(len(files), most) else ""
    return f"{count(total, 'file')}: {named}{more}" if named else count(total, "file")


def sizes(details: Details) -> tuple[int, int]:
    commits = max(int(details.get("commit_count") or 0), len(details.get("commits") or ()))
    return commits, max(int(details.get("file_count") or 0), len(details.get("files") or ()))


def size_text(commits: int, files: int) -> str:
    """`3 commits, 4 files`; empty for none of both."""
    said = [count(commits, "commit")] if commits else []
    return ", ".join([*said, *([count(files, "file")] if files else [])])
