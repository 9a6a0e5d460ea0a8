"""The only writer of configuration files and the files beside them: whole files, and none is replaced by accident."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.config.raw import parse_env, read_text
from supervisor_core.host.descriptors import PRIVATE_FILE, set_mode
from supervisor_core.host.files import FileTaken
from supervisor_core.host.open_folder import OpenFolder

READABLE_FILE = 0o644
"""The mode of a file without secrets."""


def write_file(path: Path, text: str, *, replace: bool, mode: int = PRIVATE_FILE) -> None:
    """Write a file that survives a power cut: a reader sees the old one, the new one, or none yet.

    Without `replace`, a file with this name is kept, and that's `FileTaken`. A file that is replaced keeps its mode.
    A file that root writes gets the owner of its folder, who runs the daemon.
    """
    with OpenFolder.at(path.parent, shared=False) as folder:
        if not replace:
            try:
                folder.create(path.name, text.encode(), mode)
            except FileExistsError:
                raise FileTaken(f"{path} exists.", remedy="Replace it with --force.") from None
        else:
            current_mode = path.stat().st_mode & 0o777 if path.exists() else mode
            folder.write(path.name, text.encode(), current_mode)
    if os.name != "nt" and os.geteuid() == 0 and (owner := path.parent.stat()).st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def add_variables(path: Path, values: Mapping[str, str], comments: Sequence[str] = ()) -> tuple[str, ...]:
    """Add variables to a `.env`; those that it gives a value keep it. Returns the names of the added ones.

    A comment is added if the file doesn't have it. Its mode becomes 0600, because it holds secrets.
    """
    content = read_text(path) if path.exists() else ""
    known, _ = parse_env(content)
    added = {name: value for name, value in values.items() if not known.get(name)}
    lines = [line for line in comments if line not in content.splitlines()]
    lines += [f"{name}={value}" for name, value in added.items()]
    if lines:
        before = f"{content.rstrip()}\n" if content.strip() else ""
        write_file(path, before + "\n".join(lines) + "\n", replace=path.exists())
    if path.exists() and path.stat().st_mode & 0o077:
        with path.open("rb") as written:
            set_mode(written.fileno(), PRIVATE_FILE)
    return tuple(added)


class _Dumper(yaml.SafeDumper):
    """Writes a repeated value out each time, instead of as an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (for all of them)
        return True


def document_text(document: Mapping[str, Any], header: str, comments: Mapping[str, str]) -> str:
    """A configuration as a file: a header, and each section with the comment above it, if it has one."""
    parts = [header.rstrip() + "\n"]
    for name, section in document.items():
        comment = "".join(f"# {line}\n" for line in comments.get(name, "").splitlines())
        style = None if isinstance(section, Mapping) else False  # None: the innermost mappings and lists in one line
        body = yaml.dump(
            {name: section}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=style
        )
        parts.append(f"{comment}{body}")
    return "\n".join(parts)
