"""The web addresses of commits on known hosting sites."""

from __future__ import annotations

import re
from collections.abc import Mapping

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


def commit_page(remote: str) -> str:
    """The address of a commit's page up to its hash, for the address of a remote; empty for an unknown site.

    A user name, a password or a token in the remote's address is left out.
    """
    remote = remote.strip()
    found = _HTTPS.fullmatch(remote) or _SSH.fullmatch(remote) or _SCP.fullmatch(remote)
    if found is None or (":" in found["host"] and not remote.startswith("https:")):
        return ""  # a port of HTTP isn't one of HTTPS
    host, path = found["host"], found["path"].strip("/").removesuffix(".git")
    page = next((page for name, page in PAGES.items() if name in re.split(r"[.:-]", host.lower())), "")
    return f"https://{host}/{path}{page}" if page and "/" in path and ".." not in path else ""


def commit_page_of(git: Git, remote: str) -> str:
    """The address of a commit's page for a remote of a checkout; empty if git fails, since it's optional."""
    try:
        found = git.run("remote", "get-url", "--", remote)
    except SupervisorError:
        return ""
    return commit_page(found.output) if found.ok else ""
