"""Repositories that are out of the ordinary: submodules, LFS pointers, line endings, a filter that fails."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support.code.commits import straight
from tests.support.code.repositories import Clones, Repository, origin_and_checkout

ALLOWED = "protocol.file.allow=always"
"""Git fetches no submodule from a folder of the same machine unless it is told to."""

BROKEN = "data.broken"


def with_submodule(folder: Path) -> tuple[Clones, Clones]:
    """The repository and the one of its submodule `parts/inner`, which is checked out in the checkout.

    The newest two commits are: the submodule is added; it is moved on by one commit.
    """
    outer = origin_and_checkout(folder / "outer")
    inner = origin_and_checkout(folder / "inner")
    for repository in (outer.checkout, outer.colleague):
        repository.git("config", *ALLOWED.split("="))
    there = Repository(outer.colleague.folder / "parts" / "inner", outer.colleague.clock)
    outer.colleague.git("-c", ALLOWED, "submodule", "--quiet", "add", str(inner.origin.folder), "parts/inner")
    there.git("checkout", "--quiet", "HEAD~1")
    for message in ("Add the submodule", "Move the submodule on"):
        outer.colleague.git("add", "--all")
        outer.colleague.git("commit", "--quiet", f"--message={message}")
        there.git("checkout", "--quiet", "main")
    outer.colleague.push()
    outer.checkout.git("pull", "--quiet", "--ff-only")
    outer.checkout.git("-c", ALLOWED, "submodule", "--quiet", "update", "--init")
    return outer, inner


def with_lfs_pointers(folder: Path) -> Clones:
    """`model.bin` is a pointer, changed by the newest commit. git-lfs need not be there, nor is it configured."""
    rule = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    return origin_and_checkout(
        folder,
        straight(
            {".gitattributes": rule, "watcher.py": "print('one')\n"},
            {"model.bin": lfs_pointer(b"the first model")},
            {"model.bin": lfs_pointer(b"the second model")},
        ),
    )


def lfs_pointer(content: bytes) -> str:
    """What is committed in place of such a large file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{_sha256(content)}\nsize {len(content)}\n"


def with_crlf(folder: Path) -> Clones:
    """`*.txt` has CRLF in the checkout and LF in its commits; the newest two commits change one."""
    return origin_and_checkout(
        folder,
        straight(
            {".gitattributes": "*.txt text eol=crlf\n", "notes.txt": "one\ntwo\nthree\n"},
            {"notes.txt": "one\n2\nthree\n"},
            {"notes.txt": "one\n2\nthree\nfour\n"},
        ),
    )


def with_broken_filter(folder: Path) -> Clones:
    """Four commits, of which the newest reverts cleanly. The one before fails: `BROKEN` can't be brought back.

    The filter is required and always fails; the checkout was made before it was configured.
    """
    made = origin_and_checkout(
        folder,
        straight(
            {".gitattributes": "*.broken filter=broken\n", "watcher.py": "print('one')\n"},
            {BROKEN: "data\n"},
            {BROKEN: None},
            {"watcher.py": "print('two')\n"},
        ),
    )
    for setting, value in (("smudge", "false"), ("clean", "cat"), ("required", "true")):
        made.checkout.git("config", f"filter.broken.{setting}", value)
    return made


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
