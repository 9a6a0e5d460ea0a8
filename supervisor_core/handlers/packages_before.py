"""What the packages were before an installation, written down first: one that is cut off can then be told, and undone.

The file stays when its command has ended: its outcome is written down after that, and may be cut off, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.adapters.packages import Packages, PackagesError, Snapshot
from supervisor_core.adapters.packages_at_work import pip_at_work
from supervisor_core.domain.code import named
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.code_packages import NAMED, Environment, changes_since, locked
from supervisor_core.handlers.code_site import Site
from supervisor_core.handlers.context import Host

FOLDER = "packages"
"""In the state folder. Its files stay for a month: a host that was cut off is looked after by then."""

LOOK_SECONDS = 0.2


class PackagesLeft(NamedTuple):
    """What an installation left behind that was cut off."""

    words: str
    packages: list[dict[str, Any]]
    """In the form of an update's details, so that an undo finds them."""

    @property
    def differ(self) -> bool:
        """Whether there is something that an undo would bring back."""
        return any(one["changed"] for one in self.packages)


def write_down(host: Host, task_id: str, environments: Sequence[Environment]) -> None:
    """Have it on the disk what is installed. No arguments for pip: they may hold a password."""
    told = [
        {
            "python": each.python,
            "folder": str(each.packages.folder),
            "requirements": [str(one.file) for one in each.installations],
            "versions": dict(each.before.versions),
        }
        for each in environments
    ]
    path = _path(host, task_id)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_json(path, {"task_id": task_id, "environments": told}, mode=0o600)
    except OSError as error:
        raise PackagesError(f"What is installed now could not be written down in {path.parent}. {error}") from None


def packages_left(host: Host, job: Job, site: Site) -> PackagesLeft | None:
    """What differs from what this command wrote down; None where it had not come so far."""
    try:
        before = read_json(_path(host, job.task_id))
    except (SupervisorError, OSError) as error:
        return PackagesLeft(f"Which packages it had changed is not known. {error}", [])
    if before is None:
        return None
    unknown, found = [], []
    for one in before["environments"]:
        try:
            found.append(_differs(host, site, one))
        except SupervisorError as error:
            unknown.append(f"Which packages of {one['python']} it had changed is not known. {error}")
    changed = list(dict.fromkeys(each for one in found for each in one["changed"]))
    said = [f"Packages: {named(changed, NAMED)}."] if changed else []
    if not changed and not unknown:
        said = ["Its packages are as they were."]
    return PackagesLeft(" ".join(said + unknown), [one for one in found if one["changed"]])


def _differs(host: Host, site: Site, one: Mapping[str, Any]) -> dict[str, Any]:
    python = str(one["python"])
    worker = next((each for each in site.workers if host.config.python_for(each) == python), site.worker)
    with locked(host, python, worker):
        deadline = time.monotonic() + worker.code.pip_timeout_seconds
        while pip_at_work(python):
            if time.monotonic() > deadline:
                raise PackagesError(f"A pip still works on {python}.")
            time.sleep(LOOK_SECONDS)
        return changes_since(Snapshot(one["versions"]), Packages(python, Path(one["folder"]), worker.code.pip_args))


def _path(host: Host, task_id: str) -> Path:
    return host.config.state_dir / FOLDER / f"{task_id}.json"
