"""Installs a checkout's requirements into the Python of each of its workers.

The packages before are recorded first, so that an interrupted installation can be reported and undone. The record
stays after the command: its outcome is stored later, and a crash may come between.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.code.change_plan import CodePlan, list_names
from supervisor_core.code.checkout import Checkout, CodeRefused
from supervisor_core.code.git.history import has_file
from supervisor_core.code.packages.pip import Packages, is_pip_running
from supervisor_core.code.packages.values import PackagesError, PackageSnapshot, RestoreResult, differences
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.locks import FileLock
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext

NAMED = 10  # packages in a message


@dataclass(frozen=True, slots=True)
class Installation:
    """One file of requirements, and the door to the Python that it is installed into."""

    packages: Packages
    worker: WorkerSettings

    @property
    def python(self) -> str:
        """Whose packages these become."""
        return self.packages.python

    @property
    def file(self) -> Path:
        """The file; two workers may name the same one, by other paths."""
        return Path(os.path.normpath(self.worker.code.path.resolve() / self.worker.code.requirements))

    def named(self, site: Checkout) -> str:
        """The file as people of this checkout call it."""
        place = self.file
        return place.relative_to(site.top).as_posix() if place.is_relative_to(site.top) else str(place)

    def run(self) -> None:
        """Install it; `PackagesError` where that fails."""
        code = self.worker.code
        self.packages.install(code.requirements, code.pip_timeout_seconds)


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """One environment, what is installed into it, one after the other, and how it was before."""

    installations: tuple[Installation, ...]
    before: PackageSnapshot

    @property
    def packages(self) -> Packages:
        """A door to it."""
        return self.installations[0].packages

    @property
    def python(self) -> str:
        """Whose packages these are."""
        return self.packages.python

    def check(self) -> None:
        """`PackagesError` where what was installed breaks what was there."""
        if problems := self.packages.new_problems(self.before):
            raise PackagesError(f"The installed packages conflict: {list_names(problems, NAMED).rstrip('.')}.")

    def put_back(self) -> str:
        """Have the packages as they were; in words, what came of that."""
        try:
            return str(_restored([(each.packages, each.worker) for each in self.installations], self.before))
        except SupervisorError as error:
            return f"Couldn't tell whether the packages were restored. {error}"

    def changed(self) -> dict[str, Any]:
        """What is different now, for results and for an undo."""
        return changes_since(self.before, self.packages)


def changes_since(before: PackageSnapshot, packages: Packages) -> dict[str, Any]:
    """What is different now in an environment, for results and for an undo."""
    found = differences(before, PackageSnapshot(packages.snapshot().versions))
    return {
        "python": packages.python,
        "changed": [str(each) for each in found],
        "before": {each.name: each.before for each in found},
        "after": {each.name: each.now for each in found},
    }


@contextlib.contextmanager
def environments_of(host: HostContext, site: Checkout) -> Iterator[list[PythonEnvironment]]:
    """Each environment once, as it is now, with nobody else of ours at work in it.

    Those of other checkouts may share it: what one of them installs, the other would take for its own mistake.
    """
    by_python: dict[str, list[Installation]] = {}
    for each in installations_of(host, site):
        by_python.setdefault(each.python, []).append(each)
    with contextlib.ExitStack() as held:
        for python, its in by_python.items():
            held.enter_context(locked(host, python, its[0].worker))
        yield [PythonEnvironment(tuple(its), its[0].packages.snapshot()) for its in by_python.values()]


def installations_of(host: HostContext, site: Checkout) -> list[Installation]:
    """All that the checkout names for its workers, by their Pythons: each file once for each Python."""
    found: dict[tuple[str, Path], Installation] = {}
    for worker in site.workers:
        if worker.code.requirements:
            code = worker.code
            each = Installation(Packages(host.config.python_for(worker), code.path, code.pip_args), worker)
            found.setdefault((each.python, each.file), each)
    return [found[key] for key in sorted(found)]


def check_requirements(site: Checkout, installations: Sequence[Installation], plan: CodePlan) -> None:
    """`CodeRefused` where the code that would come does not have the file that names what it requires, or there is no
    such Python. Whether that one has a pip is not asked: it takes long.
    """
    for each in installations:
        if shutil.which(each.python) is None:
            raise CodeRefused(
                f"Python {each.python} doesn't exist.",
                remedy=f"Fix workers.{each.worker.id}.python, or create that virtual environment.",
            )
        code, place = each.worker.code, each.file
        if place.is_file() and (plan.leaves_code or plan.kept):
            continue
        inside = place.relative_to(site.top).as_posix() if place.is_relative_to(site.top) else ""
        if not inside or not has_file(site.git, plan.target, inside):
            raise CodeRefused(
                f"The new code has no file {code.requirements}.",
                remedy=f"Fix workers.{each.worker.id}.code.requirements. If it's empty, nothing is installed.",
            )


def put_back_packages(host: HostContext, site: Checkout, told: Sequence[Mapping[str, Any]]) -> str:
    """Take back what an earlier update installed, as far as nobody has changed it since; what came of it, in words."""
    said = []
    for one in told:
        python = str(one["python"])
        doors = [(each.packages, each.worker) for each in installations_of(host, site) if each.python == python]
        code = site.code
        doors = doors or [(Packages(python, code.path, code.pip_args), site.worker)]  # configured otherwise since
        packages, worker = doors[0]
        with locked(host, python, worker):
            now = dict(packages.snapshot().versions)
            was, left = one["before"], one["after"]
            ours = {name: before for name, before in was.items() if now.get(name, "") == left.get(name)}
            versions = {name: requirement for name, requirement in {**now, **ours}.items() if requirement}
            said.append(str(_restored(doors, PackageSnapshot(versions))))
    return " ".join(dict.fromkeys(said))


def _restored(doors: Sequence[tuple[Packages, WorkerSettings]], before: PackageSnapshot) -> RestoreResult:
    """What came of it. What one worker's arguments for pip do not find, those of another may."""
    for packages, worker in doors:
        restored = packages.restore(before, worker.code.pip_timeout_seconds)
        if restored.complete:
            break
    return restored


def locked(host: HostContext, python: str, worker: WorkerSettings) -> FileLock:
    """Have this Python alone, of all that we do; waits as long as an installation may take."""
    locks = host.config.state_dir / "locks"
    locks.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    key = hashlib.sha256(python.encode()).hexdigest()[:16]
    lock = FileLock(locks / f"python_{key}.lock", f"an installation for {worker.id}")
    return lock.acquire(timeout=worker.code.pip_timeout_seconds)


FOLDER = "packages"
"""In the state folder. Its files stay for a month: a host that was cut off is looked after by then."""

LOOK_SECONDS = 0.2


class InterruptedPackages(NamedTuple):
    """What an installation left behind that was cut off."""

    words: str
    packages: list[dict[str, Any]]
    """In the form of an update's details, so that an undo finds them."""

    @property
    def differ(self) -> bool:
        """Whether there is something that an undo would bring back."""
        return any(one["changed"] for one in self.packages)


def record_snapshots(host: HostContext, task_id: str, environments: Sequence[PythonEnvironment]) -> None:
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
        path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        write_json(path, {"task_id": task_id, "environments": told})
    except OSError as error:
        raise PackagesError(f"Couldn't record the installed packages in {path.parent}. {error}") from None


def describe_packages(host: HostContext, job: Job, site: Checkout) -> InterruptedPackages | None:
    """What differs from what this command wrote down; None where it had not come so far."""
    try:
        before = read_json(_path(host, job.task_id))
    except (SupervisorError, OSError) as error:
        return InterruptedPackages(f"Couldn't tell which packages it changed. {error}", [])
    if before is None:
        return None
    unknown, found = [], []
    for one in before["environments"]:
        try:
            found.append(_differs(host, site, one))
        except SupervisorError as error:
            unknown.append(f"Couldn't tell which packages of {one['python']} it changed. {error}")
    changed = list(dict.fromkeys(each for one in found for each in one["changed"]))
    said = [f"Packages changed: {list_names(changed, NAMED)}."] if changed else []
    if not changed and not unknown:
        said = ["Its packages are unchanged."]
    return InterruptedPackages(" ".join(said + unknown), [one for one in found if one["changed"]])


def _differs(host: HostContext, site: Checkout, one: Mapping[str, Any]) -> dict[str, Any]:
    python = str(one["python"])
    worker = next((each for each in site.workers if host.config.python_for(each) == python), site.worker)
    with locked(host, python, worker):
        deadline = time.monotonic() + worker.code.pip_timeout_seconds
        while is_pip_running(python):
            if time.monotonic() > deadline:
                raise PackagesError(f"pip is still running on {python}.")
            time.sleep(LOOK_SECONDS)
        return changes_since(
            PackageSnapshot(one["versions"]), Packages(python, Path(one["folder"]), worker.code.pip_args)
        )


def _path(host: HostContext, task_id: str) -> Path:
    return host.config.state_dir / FOLDER / f"{task_id}.json"
