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
from supervisor_core.code.packages.pip import Packages, PackagesError, PackageSnapshot, differing, is_pip_running
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.locks import FileLock
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext

NAMED = 10  # packages in a message
FOLDER = "packages"
"""The folder in the state folder with the records. They stay for a month, until an interrupted host is looked after."""

LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Installation:
    """A requirements file, and the Python that it is installed into."""

    packages: Packages
    worker: WorkerSettings

    @property
    def python(self) -> str:
        return self.packages.python

    @property
    def file(self) -> Path:
        """The file, normalized: two workers may name the same one by different paths."""
        return Path(os.path.normpath(self.worker.code.path.resolve() / self.worker.code.requirements))

    def named(self, site: Checkout) -> str:
        return self.file.relative_to(site.top).as_posix() if self.file.is_relative_to(site.top) else str(self.file)

    def run(self) -> None:
        self.packages.install(self.worker.code.requirements, self.worker.code.pip_timeout_seconds)


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """One Python with all that is installed into it, and its packages before."""

    installations: tuple[Installation, ...]
    before: PackageSnapshot

    @property
    def packages(self) -> Packages:
        return self.installations[0].packages

    @property
    def python(self) -> str:
        return self.packages.python

    def check(self) -> None:
        """Raise `PackagesError` if the new packages broke old ones."""
        if problems := self.packages.new_problems(self.before):
            raise PackagesError(f"The installed packages conflict: {list_names(problems, NAMED).rstrip('.')}.")

    def put_back(self) -> str:
        """Restore the packages, and return the result as a sentence."""
        try:
            return _restore([(one.packages, one.worker) for one in self.installations], self.before)
        except SupervisorError as error:
            return f"Couldn't tell whether the packages were restored. {error}"

    def changed(self) -> dict[str, Any]:
        return changes_since(self.before.versions, self.packages)


def changes_since(before: Mapping[str, str], packages: Packages) -> dict[str, Any]:
    """The differences of an environment, for results and for an undo."""
    found = differing(before, packages.snapshot().versions)
    return {
        "python": packages.python,
        "changed": [str(package) for package in found],
        "before": {package.name: package.before for package in found},
        "after": {package.name: package.now for package in found},
    }


@contextlib.contextmanager
def environments_of(host: HostContext, site: Checkout) -> Iterator[list[PythonEnvironment]]:
    """The environments of a checkout, each locked: another checkout that shares one would take these changes for its
    own mistake."""
    by_python: dict[str, list[Installation]] = {}
    for installation in installations_of(host, site):
        by_python.setdefault(installation.python, []).append(installation)
    with contextlib.ExitStack() as locks:
        for python, installations in by_python.items():
            locks.enter_context(locked(host, python, installations[0].worker))
        yield [
            PythonEnvironment(tuple(installations), installations[0].packages.snapshot())
            for installations in by_python.values()
        ]


def installations_of(host: HostContext, site: Checkout) -> list[Installation]:
    """Each requirements file once for each Python, sorted by Python."""
    found: dict[tuple[str, Path], Installation] = {}
    for worker in site.workers:
        if code := worker.code if worker.code.requirements else None:
            one = Installation(Packages(host.config.python_for(worker), code.path, code.pip_args), worker)
            found.setdefault((one.python, one.file), one)
    return [found[key] for key in sorted(found)]


def check_requirements(site: Checkout, installations: Sequence[Installation], plan: CodePlan) -> None:
    """Raise `CodeRefused` if the new code lacks a requirements file, or a Python doesn't exist."""
    for one in installations:
        if shutil.which(one.python) is None:
            raise CodeRefused(
                f"Python {one.python} doesn't exist.",
                remedy=f"Fix workers.{one.worker.id}.python, or create that virtual environment.",
            )
        if one.file.is_file() and (plan.leaves_code or plan.kept):
            continue
        if not one.file.is_relative_to(site.top) or not has_file(site.git, plan.target, one.named(site)):
            raise CodeRefused(
                f"The new code has no file {one.worker.code.requirements}.",
                remedy=f"Fix workers.{one.worker.id}.code.requirements. If it's empty, nothing is installed.",
            )


def put_back_packages(host: HostContext, site: Checkout, recorded: Sequence[Mapping[str, Any]]) -> str:
    """Restore what an earlier update installed, unless it was changed since. Returns the result in words."""
    results = []
    for record in recorded:
        python = str(record["python"])
        ways = [(one.packages, one.worker) for one in installations_of(host, site) if one.python == python]
        ways = ways or [(Packages(python, site.code.path, site.code.pip_args), site.worker)]  # no longer configured
        packages, worker = ways[0]
        with locked(host, python, worker):
            now = dict(packages.snapshot().versions)
            before, after = record["before"], record["after"]
            ours = {name: version for name, version in before.items() if now.get(name, "") == after.get(name)}
            versions = {name: version for name, version in {**now, **ours}.items() if version}
            results.append(_restore(ways, PackageSnapshot(versions)))
    return " ".join(dict.fromkeys(results))


def _restore(ways: Sequence[tuple[Packages, WorkerSettings]], before: PackageSnapshot) -> str:
    """Restore with the pip arguments of one worker after the other: what one doesn't find, another may."""
    for packages, worker in ways:
        result = packages.restore(before, worker.code.pip_timeout_seconds)
        if result.complete:
            break
    return str(result)


def locked(host: HostContext, python: str, worker: WorkerSettings) -> FileLock:
    """Lock this Python, for as long as an installation may take."""
    locks = host.config.state_dir / "locks"
    locks.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    key = hashlib.sha256(python.encode()).hexdigest()[:16]
    lock = FileLock(locks / f"python_{key}.lock", f"an installation for {worker.id}")
    return lock.acquire(timeout=worker.code.pip_timeout_seconds)


def record_snapshots(host: HostContext, task_id: str, environments: Sequence[PythonEnvironment]) -> None:
    """Record the installed packages on disk, without pip's arguments: they may hold a password."""
    documents = [
        {
            "python": environment.python,
            "folder": str(environment.packages.folder),
            "requirements": [str(one.file) for one in environment.installations],
            "versions": dict(environment.before.versions),
        }
        for environment in environments
    ]
    folder = host.config.state_dir / FOLDER
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        write_json(folder / f"{task_id}.json", {"task_id": task_id, "environments": documents})
    except OSError as error:
        raise PackagesError(f"Couldn't record the installed packages in {folder}. {error}") from None


class InterruptedPackages(NamedTuple):
    """What an interrupted installation left behind."""

    words: str
    packages: list[dict[str, Any]]
    """The changed environments, as in an update's details, so that an undo finds them."""


def describe_packages(host: HostContext, job: Job, site: Checkout) -> InterruptedPackages | None:
    """Compare the packages with the record of this command; None if it recorded nothing yet."""
    try:
        before = read_json(host.config.state_dir / FOLDER / f"{job.task_id}.json")
    except (SupervisorError, OSError) as error:
        return InterruptedPackages(f"Couldn't tell which packages it changed. {error}", [])
    if before is None:
        return None
    unknown, found = [], []
    for record in before["environments"]:
        python = str(record["python"])
        worker = next((worker for worker in site.workers if host.config.python_for(worker) == python), site.worker)
        try:
            with locked(host, python, worker):
                deadline = time.monotonic() + worker.code.pip_timeout_seconds
                while is_pip_running(python):
                    if time.monotonic() > deadline:
                        raise PackagesError(f"pip is still running on {python}.")
                    time.sleep(LOOK_SECONDS)
                packages = Packages(python, Path(record["folder"]), worker.code.pip_args)
                found.append(changes_since(record["versions"], packages))
        except SupervisorError as error:
            unknown.append(f"Couldn't tell which packages of {python} it changed. {error}")
    changed = list(dict.fromkeys(package for one in found for package in one["changed"]))
    words = [f"Packages changed: {list_names(changed, NAMED)}."] if changed else []
    if not changed and not unknown:
        words = ["Its packages are unchanged."]
    return InterruptedPackages(" ".join(words + unknown), [one for one in found if one["changed"]])
