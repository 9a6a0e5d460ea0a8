"""The web addresses of commits on known hosting sites."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from supervisor_core.code.git.runner import Git
from supervisor_core.common.errors import SupervisorError

PAGES: Mapping[str, str] = {
    "github": "/commit/",
    "gitlab": "/-/commit/",
    "bitbucket": "/commits/",
    "gitea": "/commit/",
    "codeberg": "/commit/",
}
"""The part between a repository's address and a commit's hash, by a label of the host's name."""

_HTTPS = re.compile(r"https?://(?:[^@/]*@)?(?P<host>[\w.-]+(?::\d{1,5})?)/(?P<path>[\w./~-]+)", re.ASCII)
_SSH = re.compile(r"(?:git\+)?ssh://(?:[^@/]*@)?(?P<host>[\w.-]+)(?::\d{1,5})?/(?P<path>[\w./~-]+)", re.ASCII)
_SCP = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+):(?P<path>[\w.~-][\w./~-]*)", re.ASCII)
"""The forms of a remote's address, with characters that a link needn't escape."""


class RepositoryAddress(NamedTuple):
    """A repository on a host."""

    host: str
    path: str


def commit_page(remote: str) -> str:
    """The address of a commit's page up to its hash, for the address of a remote; empty for an unknown site.

    A user name, a password or a token in the remote's address is left out.
    """
    address = _parse(remote.strip())
    if address is None or (":" in address.host and not remote.strip().startswith("https:")):
        return ""  # a port of HTTP isn't one of HTTPS
    page = next((page for name, page in PAGES.items() if name in re.split(r"[.:-]", address.host.lower())), "")
    return f"https://{address.host}/{address.path}{page}" if page else ""


def commit_page_of(git: Git, remote: str) -> str:
    """The address of a commit's page for a remote of a checkout; empty if git fails, since it's optional."""
    try:
        found = git.run("remote", "get-url", "--", remote)
    except SupervisorError:
        return ""
    return commit_page(found.output) if found.ok else ""


def _parse(remote: str) -> RepositoryAddress | None:
    for form in (_HTTPS, _SSH, _SCP):
        if found := form.fullmatch(remote):
            path = found["path"].strip("/").removesuffix(".git")
            return RepositoryAddress(found["host"], path) if path.count("/") and ".." not in path else None
    return None
