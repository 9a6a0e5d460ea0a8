"""The one door to pip: the packages of one worker's Python, looked at, installed, and put back to what they were.

Whether one of our pips still works on a Python, as one that outlives its supervisor.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from supervisor_core.code.git.history import top_of
from supervisor_core.code.packages.values import (
    NoPipError,
    PackagesError,
    PackageSnapshot,
    RestoreResult,
    brings_back,
    complaint,
    differing,
    failure,
    masking_for,
    pip_environment,
    read_freeze,
)
from supervisor_core.host.programs import KEPT_BYTES, ProgramError, ProgramResult, run_command

_AS_MAIN = "import sys; '' in sys.path and sys.path.remove(''); import runpy; runpy._run_module_as_main('pip')"
PIP = ("-c", _AS_MAIN)
"""What `-m pip` does, but without the folder that it is run in on the path: a `typing.py` of the checkout would be run
in place of Python's own, and a `pip.py` in place of pip. A variable that says so (PYTHONSAFEPATH) would be heard by the
builds that pip starts as well, which may import from their own folder, and not by Pythons before 3.11. It is what
Python itself calls for `-m`, so where there is no pip, it says so in the same words."""

ENSUREPIP = ("-I", "-m", "ensurepip")  # for the same reason; it hands the I on to the pip that it runs

READING_SECONDS = 60.0
"""For a look: a second with a few hundred packages, far more where they lie on a slow disk that nobody has read yet."""

READING_BYTES = 4 * 1024 * 1024
"""Of a list: some ten thousand packages. A list with a gap would be one of packages that vanished."""

OPTIONS = ("--no-input", "--disable-pip-version-check", "--no-color")
FORCING = "--break-system-packages"
"""The one further argument that uninstalling needs as well."""

TEMPORARY = ("TMPDIR", "TEMP", "TMP")

CORRECT_PYTHON = "Set workers.ID.python to the worker's own interpreter."
CORRECT_REQUIREMENTS = "Fix workers.ID.code.requirements. If it's empty, nothing is installed."


class Packages:
    """The packages of one Python, for the checkout in `folder`."""

    def __init__(
        self, python: str, folder: Path, pip_args: Sequence[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        self.python = python
        self.folder = folder
        self._pip_args = tuple(pip_args)
        self._environment = pip_environment(os.environ if environ is None else environ)
        self._masking = masking_for(self._pip_args, self._environment)

    def snapshot(self) -> PackageSnapshot:
        """What is installed now; `PackagesError` where pip can't say."""
        return PackageSnapshot(self._versions(), self._problems())

    def install(self, requirements: str, timeout: float) -> None:
        """Install what a file of the checkout asks for; `PackagesError` with pip's own words where that fails.

        Then anything may have been changed, or nothing: `restore` finds out.
        """
        path = self._requirements(requirements)
        ran = self._change(["install", *self._pip_args, "-r", str(path)], timeout)
        if not ran.ok:
            raise failure(ran, self.python, "install", timeout, self._masking)

    def new_problems(self, before: PackageSnapshot) -> tuple[str, ...]:
        """What `pip check` complains of now and did not before. The same lack in other versions is none of these."""
        known = set(map(complaint, before.problems))
        return tuple(problem for problem in self._problems() if complaint(problem) not in known)

    def restore(self, before: PackageSnapshot, timeout: float) -> RestoreResult:
        """Bring back exactly the versions of a snapshot, as far as they are still to be had; look again, and tell.

        What is new is uninstalled, and what changed or is gone is installed by its version, without what it requires.
        What was installed from a folder is only looked at: put the code back first. An answer where anything could be
        done; `PackagesError` where pip can't even be asked what is there.
        """
        deadline = time.monotonic() + timeout
        found = differing(before.versions, self._versions_with_some_pip(timeout))
        new = [each.name for each in found if not each.before]
        old = [each.before for each in found if brings_back(each.before)]
        if not new and not old:
            return RestoreResult(left=found)
        # First away with the new: what an old one shares with it would go as well.
        forcing = [word for word in self._pip_args if word == FORCING]
        reasons = self._each(["uninstall", "--yes", *forcing], new, deadline)
        reasons += self._each(["install", *self._pip_args, "--force-reinstall", "--no-deps"], old, deadline)
        left = differing(before.versions, self._versions())
        names = {each.name for each in left}
        back = tuple(each for each in found if each.name not in names)
        return RestoreResult(back, left, " ".join(dict.fromkeys(reasons)) if left else "")

    def _each(self, words: list[str], requirements: list[str], deadline: float) -> list[str]:
        """Run pip for all of these; where that fails, for one after the other: why it failed."""
        left = deadline - time.monotonic()
        if not requirements:
            return []
        if left <= 0:
            return ["No time was left for the other packages."]
        ran = self._change([*words, *requirements], left)
        if ran.ok:
            return []
        if len(requirements) == 1 or ran.timed_out:
            return [str(failure(ran, self.python, words[0], left, self._masking))]
        return [why for one in requirements for why in self._each(words, [one], deadline)]

    def _versions_with_some_pip(self, timeout: float) -> Mapping[str, str]:
        """What is installed. A pip that ended while it replaced itself is gone: Python brings one along."""
        try:
            return self._versions()
        except NoPipError:
            if not self._run(ENSUREPIP, timeout).ok:
                raise
            return self._versions()

    def _versions(self) -> Mapping[str, str]:
        ran = self._look("freeze", "--all")
        versions = read_freeze(ran.output)
        if not ran.ok:
            raise failure(ran, self.python, "freeze", READING_SECONDS, self._masking)
        if not versions:  # a pip always lists itself
            raise PackagesError(f"{self.python} doesn't behave like a Python with pip.", remedy=CORRECT_PYTHON)
        return versions

    def _problems(self) -> tuple[str, ...]:
        ran = self._look("check")
        problems = tuple(line.strip() for line in ran.output.splitlines() if line.strip())
        if not ran.ok and (ran.exit_code != 1 or ran.timed_out or not problems):
            raise failure(ran, self.python, "check", READING_SECONDS, self._masking)
        return () if ran.ok else problems

    def _look(self, *words: str) -> ProgramResult:
        return self._run([*PIP, *OPTIONS, *words], READING_SECONDS, keep_bytes=READING_BYTES)

    def _change(self, words: Sequence[str], timeout: float) -> ProgramResult:
        # One that is ended leaves behind what it has downloaded and half built, which may be gigabytes: not here.
        try:
            with tempfile.TemporaryDirectory(prefix="supervisor-pip-", ignore_cleanup_errors=True) as folder:
                return self._run([*PIP, *OPTIONS, *words], timeout, dict.fromkeys(TEMPORARY, folder))
        except OSError as error:
            raise PackagesError(f"Couldn't create a folder for pip's temporary files: {error.strerror}.") from None

    def _run(
        self,
        words: Sequence[str],
        timeout: float,
        variables: Mapping[str, str] | None = None,
        keep_bytes: int = KEPT_BYTES,
    ) -> ProgramResult:
        # In the checkout, for a requirement like `./wheels/x.whl` starts there.
        environment = {**self._environment, **(variables or {})}
        try:
            return run_command(
                [self.python, *words], cwd=self.folder, env=environment, timeout=timeout, keep_bytes=keep_bytes
            )
        except ProgramError as error:
            remedy = CORRECT_PYTHON if self.folder.is_dir() else "Fix workers.ID.code.path."
            raise PackagesError(error.message, remedy=remedy) from None

    def _requirements(self, name: str) -> Path:
        path, top = self.folder.absolute() / name, top_of(self.folder)
        if not path.resolve().is_relative_to(top):
            raise PackagesError(f"{name} is outside the checkout {top}.", remedy=CORRECT_REQUIREMENTS)
        if not path.is_file():
            raise PackagesError(f"{self.folder} has no file {name}.", remedy=CORRECT_REQUIREMENTS)
        return path  # as it is: what it includes lies beside it, and not where it may point to


def is_pip_running(python: str) -> bool:
    """Whether a process of this host runs with the very words that we start pip with, for this Python."""
    import psutil  # seldom needed

    ours = [python, *PIP, *OPTIONS]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = process.cmdline()
            # Not only at the beginning: where `python` is a script, the shell that reads it comes first.
            if any(words[at : at + len(ours)] == ours for at, word in enumerate(words) if word == python):
                return True
    return False
