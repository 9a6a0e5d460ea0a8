"""The checkout that a command on code works on, who runs from it, and whether it may be touched at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor_core.adapters.git import CodeState, Git
from supervisor_core.adapters.git_reading import in_the_way, top_of
from supervisor_core.config import SupervisorConfig, Worker
from supervisor_core.config.workers import Code
from supervisor_core.domain.code import FileChange, named, new_paths, short
from supervisor_core.domain.errors import RefusedError
from supervisor_core.handlers.context import Host

NAMED = 5  # files in an error


class CodeRefused(RefusedError):
    """The code may not be changed as it is now."""


@dataclass(frozen=True, slots=True)
class Site:
    """One checkout, and all workers of this host that run from it."""

    git: Git
    worker: Worker
    """For whom it was asked; what is configured for its code counts."""
    workers: tuple[Worker, ...]
    """All of them, by their ids."""

    @property
    def top(self) -> Path:
        """The topmost folder of the checkout."""
        return self.git.folder

    @property
    def code(self) -> Code:
        """Where its code comes from."""
        return self.worker.code

    @property
    def are(self) -> str:
        """Who runs from it, as the beginning of a sentence: `OrionMX is`, `OrionMX and Second are`."""
        *others, last = self.ids
        return f"{', '.join(others)} and {last} are" if others else f"{last} is"

    @property
    def ids(self) -> list[str]:
        """Who runs from it."""
        return [worker.id for worker in self.workers]


def site_of(host: Host, worker: Worker) -> Site:
    """The site of this worker."""
    top = host.drive.call(top_of, worker.code.path)
    sharing = host.drive.call(_sharing, host.config, top)
    return Site(Git(top, extra=identity(host.config), deadline=host.deadline), worker, sharing)


def identity(config: SupervisorConfig) -> dict[str, str]:
    """Who the commits are by: it is configured for the supervisor, and not taken from the host."""
    name, email = config.git.author_name, config.git.author_email
    roles = ("AUTHOR", "COMMITTER")
    return {f"GIT_{role}_NAME": name for role in roles} | {f"GIT_{role}_EMAIL": email for role in roles}


def check_changeable(site: Site, *, drops_changes: bool = False) -> CodeState:
    """How the checkout stands; `CodeRefused` where nothing may be changed in it as it is."""
    code, top = site.code, site.top
    state = site.git.state(code.remote, code.branch)
    if not state.head:
        raise CodeRefused(f"{top} has no commit yet.", remedy=f"Look at workers.{site.worker.id}.code.path.")
    if state.under_way:
        word = state.under_way.split(" ", maxsplit=1)[0]
        raise CodeRefused(
            f"In {top} a {state.under_way} was begun and not ended.",
            remedy=f"End it, or take it back: git -C {top} {word} --abort",
        )
    if state.lock is not None:
        raise CodeRefused(
            f"Another git is at work in {top}, or was cut off: {state.lock} is there.",
            remedy="If no git runs there, delete that file.",
        )
    if state.branch != code.branch:
        on = f"on branch {state.branch}" if state.branch else f"on no branch (at {short(state.head)})"
        raise CodeRefused(
            f"{top} is {on}, and workers.{site.worker.id}.code.branch is {code.branch}.",
            remedy=f"Switch it (git -C {top} switch {code.branch}), or correct the configuration.",
        )
    if state.unmerged:
        raise CodeRefused(
            f"In {top}, {named(state.unmerged, NAMED)} hold conflicts that nobody has resolved.",
            remedy=f"Resolve them, or drop what is not committed: git -C {top} reset --hard",
        )
    if state.in_submodules:
        raise CodeRefused(
            f"In {top}, the submodule {named(state.in_submodules, NAMED)} has changes that no commit has.",
            remedy="Commit them there or put them aside (git stash) first; nothing here could keep them.",
        )
    if state.changes and not drops_changes:
        raise CodeRefused(
            f"{top} has changes that no commit has: {named(state.changes, NAMED)}.",
            remedy="Commit them or put them aside (git stash) first.",
        )
    return state


def check_free(site: Site, changes: Sequence[FileChange]) -> None:
    """`CodeRefused` where something lies in the way of files that would come."""
    if found := in_the_way(site.git, new_paths(changes)):
        raise CodeRefused(
            f"In {site.top}, {named(found, NAMED)} would be overwritten, and git does not know what is in there.",
            remedy="Move it out of the way first.",
        )


def _sharing(config: SupervisorConfig, top: Path) -> tuple[Worker, ...]:
    sharing = (worker for worker in config.workers.values() if top_of(worker.code.path) == top)
    return tuple(sorted(sharing, key=lambda worker: worker.id))


def check_unmoved(site: Site, head: str, changes: Sequence[str], files: Sequence[FileChange]) -> None:
    """`CodeRefused` where the checkout is not any more what it was when this was planned.

    Asked once its workers are at rest: one that ends may write what it knows into the very folder that it runs from.
    """
    state = check_changeable(site, drops_changes=bool(changes))
    if state.head != head:
        raise CodeRefused(f"Somebody committed in {site.top} meanwhile; nothing was changed.", remedy="Ask again.")
    if new := sorted(set(state.changes) - set(changes)):
        raise CodeRefused(
            f"In {site.top}, {named(new, NAMED)} changed while its workers were stopped; nothing else was changed.",
            remedy="Look at that first: what no commit has would be lost.",
        )
    check_free(site, files)
