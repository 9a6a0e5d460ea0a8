"""The Python environments of the workers that run from one checkout: what the code requires is installed into each."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor_core.adapters.git_reading import has_file
from supervisor_core.adapters.locks import FileLock
from supervisor_core.adapters.packages import Packages, PackagesError, Snapshot, differences
from supervisor_core.config import Worker
from supervisor_core.domain.code import named
from supervisor_core.domain.code_plan import CodePlan
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.handlers.code_site import CodeRefused, Site
from supervisor_core.handlers.context import Host

NAMED = 10  # packages in a message


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment, and what is installed into it."""

    packages: Packages
    worker: Worker
    before: Snapshot

    @property
    def python(self) -> str:
        """Whose packages these are."""
        return self.packages.python

    def install(self) -> None:
        """Install what the checkout requires; `PackagesError` where that fails, or breaks what was there."""
        code = self.worker.code
        self.packages.install(code.requirements, code.pip_timeout_seconds)
        if problems := self.packages.new_problems(self.before):
            raise PackagesError(f"What was installed breaks what was there: {named(problems, NAMED)}.")

    def put_back(self) -> str:
        """Have the packages as they were; in words, what came of that."""
        try:
            return str(self.packages.restore(self.before, self.worker.code.pip_timeout_seconds))
        except SupervisorError as error:
            return f"Whether the packages are as they were is not known. {error}"

    def changed(self) -> dict[str, Any]:
        """What is different now, for results and for an undo."""
        found = differences(self.before, Snapshot(self.packages.snapshot().versions))
        return {
            "python": self.python,
            "changed": [str(each) for each in found],
            "before": {each.name: each.before for each in found},
            "after": {each.name: each.now for each in found},
        }


@contextlib.contextmanager
def environments_of(host: Host, site: Site) -> Iterator[list[Environment]]:
    """Each environment once, as it is now, with nobody else of ours at work in it.

    Those of other checkouts may share it: what one of them installs, the other would take for its own mistake.
    """
    workers = {host.config.python_for(worker): worker for worker in reversed(site.workers) if worker.code.requirements}
    with contextlib.ExitStack() as held:
        for python in sorted(workers):
            held.enter_context(_lock(host, python, workers[python]))
        yield [_environment(python, workers[python]) for python in sorted(workers)]


def check_requirements(site: Site, environments: Sequence[Environment], plan: CodePlan) -> None:
    """`CodeRefused` where the code that would come does not have the file that names what it requires."""
    for each in environments:
        code = each.worker.code
        place = Path(os.path.normpath(code.path.resolve() / code.requirements))
        if place.is_file() and (plan.does_nothing or plan.kept):
            continue
        inside = place.relative_to(site.top).as_posix() if place.is_relative_to(site.top) else ""
        if not inside or not has_file(site.git, plan.target, inside):
            raise CodeRefused(
                f"The code that would run has no file {code.requirements}.",
                remedy=f"Correct workers.{each.worker.id}.code.requirements; empty means that nothing is installed.",
            )


def put_back_packages(told: Sequence[Mapping[str, Any]], worker: Worker) -> str:
    """Take back what an earlier update installed, as far as nobody has changed it since; what came of it, in words."""
    said = []
    for one in told:
        packages = Packages(str(one["python"]), worker.code.path, worker.code.pip_args)
        now = dict(packages.snapshot().versions)
        ours = {name: before for name, before in one["before"].items() if now.get(name, "") == one["after"].get(name)}
        versions = {name: requirement for name, requirement in {**now, **ours}.items() if requirement}
        said.append(str(packages.restore(Snapshot(versions), worker.code.pip_timeout_seconds)))
    return " ".join(dict.fromkeys(said))


def _environment(python: str, worker: Worker) -> Environment:
    packages = Packages(python, worker.code.path, worker.code.pip_args)
    return Environment(packages, worker, packages.snapshot())


def _lock(host: Host, python: str, worker: Worker) -> FileLock:
    locks = host.config.state_dir / "locks"
    locks.mkdir(mode=0o700, exist_ok=True)
    key = hashlib.sha256(python.encode()).hexdigest()[:16]
    lock = FileLock(locks / f"python_{key}.lock", f"an installation for {worker.id}")
    return lock.acquire(timeout=worker.code.pip_timeout_seconds)
