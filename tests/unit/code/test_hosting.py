"""The web address of a commit follows from the remote's address, and nothing secret or odd gets into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.code.git import commit_page

GITHUB = "https://github.com/acme/orion/commit/"


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://github.com/acme/orion.git", GITHUB),
        ("https://github.com/acme/orion/", GITHUB),
        ("https://user:secret@github.com/acme/orion.git\n", GITHUB),
        ("git@github.com:acme/orion.git", GITHUB),
        ("ssh://git@github.com:22/acme/orion.git", GITHUB),
        ("https://github.example.com:8443/acme/orion", "https://github.example.com:8443/acme/orion/commit/"),
        ("git@gitlab.com:acme/team/orion.git", "https://gitlab.com/acme/team/orion/-/commit/"),
        ("https://git-gitlab.example.com/acme/orion.git", "https://git-gitlab.example.com/acme/orion/-/commit/"),
        ("git@bitbucket.org:acme/orion.git", "https://bitbucket.org/acme/orion/commits/"),
        ("ssh://git@gitea.example.com/acme/orion.git", "https://gitea.example.com/acme/orion/commit/"),
        ("https://codeberg.org/acme/orion", "https://codeberg.org/acme/orion/commit/"),
    ],
)
def test_known_sites_have_a_page_for_each_commit(remote: str, page: str) -> None:
    assert commit_page(remote) == page


@pytest.mark.parametrize(
    "remote",
    [
        "",
        "/srv/git/orion.git",
        "file:///srv/git/github/orion.git",
        "../github/orion",
        "https://example.com/acme/orion.git",
        "https://mygithub.example/acme/orion.git",
        "https://github.com/orion.git",
        "https://github.com/acme/../orion",
        "https://github.com/acme/orion|<!channel>",
        "C:\\github\\orion",
        "http://gitea.example.com:3000/acme/orion.git",
    ],
)
def test_other_remotes_have_none(remote: str) -> None:
    assert commit_page(remote) == ""


@given(st.text(max_size=40))
def test_no_remote_puts_markup_into_a_link(name: str) -> None:
    for remote in (f"https://github.com/acme/{name}", f"git@github.com:{name}/orion", f"https://{name}@github.com/a/b"):
        assert not set(commit_page(remote)) & set("<>|&\n `*@")
