"""The one door to pip: the packages of one worker's Python, read, installed, and restored to what they were."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from supervisor_core.code.git.history import top_of
from supervisor_core.code.git.runner import git_environment
from supervisor_core.common.errors import SupervisorError
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.programs import KEPT_BYTES, ProgramError, ProgramResult, run_command
from supervisor_core.host.web import MASK, without_query

_AS_MAIN = "import sys; '' in sys.path and sys.path.remove(''); import runpy; runpy._run_module_as_main('pip')"
PIP = ("-c", _AS_MAIN)
"""What `-m pip` does, but without the current folder on the path: a `typing.py` or `pip.py` of the checkout would be
run instead. PYTHONSAFEPATH would also reach the builds that pip starts, which may import from their own folder, and
Python before 3.11 doesn't know it."""

ENSUREPIP = ("-I", "-m", "ensurepip")

READING_SECONDS = 60.0
"""The time limit for reading: a second with a few hundred packages, far more on a slow disk."""

READING_BYTES = 4 * 1024 * 1024
"""The limit for a list: some ten thousand packages. A list with a gap would be one of packages that vanished."""

OPTIONS = ("--no-input", "--disable-pip-version-check", "--no-color")
FORCING = "--break-system-packages"
"""The one further argument that uninstalling needs as well."""

CORRECT_PYTHON = "Set workers.ID.python to the worker's own interpreter."
CORRECT_REQUIREMENTS = "Fix workers.ID.code.requirements. If it's empty, nothing is installed."

LONGEST_WORDS = 600
"""Characters of pip's output in an error: the end of a build's traceback."""

LONG_NAME = 16
"""Characters. A longer user name in an address is a token, as some hosts want it."""

KEPT = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC", "XDG_CACHE_HOME"})
"""The variables that pip gets besides git's."""

DIVERTING = frozenset(
    f"PIP_{name}"
    for name in (
        *("TARGET", "PREFIX", "ROOT", "USER", "PYTHON", "DRY_RUN", "REQUIREMENT", "EDITABLE"),
        *("PATH", "LOCAL", "EXCLUDE", "EXCLUDE_EDITABLE", "QUIET", "VERBOSE", "NO_DEPS", "IGNORE_INSTALLED"),
    )
)
"""The variables of pip that would lead it to another environment, install something else, or change the lists that we
parse. All others stay: they say where the host's index is, and a `${PIP_…}` in requirements can be a login."""

FORCED = {
    "PIP_NO_INPUT": "1",  # as variables also for the pip that pip starts to build something
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTHONIOENCODING": "utf-8",
}

_EGG = re.compile(r"#(?:.*&)?egg=([A-Za-z0-9._-]+)")
_REMARK = re.compile(r"#.*\(([A-Za-z0-9._-]+?)===?[^)]*\)")  # the name of an editable package is in the line before it
_BY_VERSION = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)===?(\S+)")
_BY_ADDRESS = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*) @ (\S+)")
_PINNED_ADDRESS = re.compile(r"(?:git|hg)\+\S+@[0-9a-f]{40}(?:#\S*)?|[^\s#]+#(?:\S*&)?sha(?:256|384|512)=[0-9a-f]+")
_LOGIN = re.compile(r"(?<=://)(?!git@)[^/\s]*@")  # but for the `git@` that every address of SSH has
_LOGIN_IN_TEXT = re.compile(r"://([^\s/]+)@")
_SECRET_NAME = re.compile("TOKEN|PASSW|SECRET", re.IGNORECASE)  # not KEY: PIP_KEYRING_PROVIDER=import
_COMPLAINT = re.compile(r"(\S+) \S+ (?:has requirement|requires) (.+?), (?:but you have|which is not installed)")
_NO_PIP = re.compile(r".+: No module named pip(\.__main__;.*)?")  # within more words, it's a build that lacks pip
_MANAGED = "externally-managed-environment"
_FRAME = " \t│╰─>"
_SAYS_NOTHING = (
    *("note: ", "hint: ", "[notice]", "[end of output]", "See above for output"),
    *(
        "WARNING: Running pip as the 'root' user",
        "WARNING: Ignoring invalid distribution",
        "WARNING: You are using pip",
    ),
)


class PackagesError(SupervisorError):
    """The packages couldn't be changed or read."""


class NoPipError(PackagesError):
    """This Python has no pip."""


@dataclass(frozen=True, slots=True)
class PackageSnapshot:
    """The packages of an environment at one moment. It holds no password, so it may be kept and shown."""

    versions: Mapping[str, str]
    """The requirement of each package as pip writes it, by normalized name: `name==1.2`, `name @ URL`, `-e PLACE`."""
    problems: tuple[str, ...] = ()
    """The complaints of `pip check`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A package that isn't as it was. An empty text means that it wasn't or isn't installed."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        before, now = short_requirement(self.before), short_requirement(self.now)
        if not before:
            return f"{self.name} {now} (added)"
        return f"{self.name} {before} → {now}" if now else f"{self.name} {before} (removed)"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    put_back: tuple[Difference, ...] = ()
    """As it was found; each is again as it was before."""
    left: tuple[Difference, ...] = ()
    """What couldn't be restored, as it is now."""
    reason: str = ""

    @property
    def complete(self) -> bool:
        return not self.left

    def __str__(self) -> str:
        if self.complete:
            return "All packages are restored."
        packages = "; ".join(
            f"{one.name} is {short_requirement(one.now) or 'missing'}, was {short_requirement(one.before) or 'missing'}"
            for one in self.left
        )
        return f"Not restored: {packages}. {self.reason}".rstrip()


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
        return PackageSnapshot(self._versions(), self._problems())

    def install(self, requirements: str, timeout: float) -> None:
        """Install a requirements file of the checkout. After a `PackagesError`, any package may have changed."""
        path, top = self.folder.absolute() / requirements, top_of(self.folder)
        if not path.resolve().is_relative_to(top):
            raise PackagesError(f"{requirements} is outside the checkout {top}.", remedy=CORRECT_REQUIREMENTS)
        if not path.is_file():
            raise PackagesError(f"{self.folder} has no file {requirements}.", remedy=CORRECT_REQUIREMENTS)
        # The path is used unresolved: what the file includes lies beside it, not where it may point to.
        ran = self._change(["install", *self._pip_args, "-r", str(path)], timeout)
        if not ran.ok:
            raise failure(ran, self.python, "install", timeout, self._masking)

    def new_problems(self, before: PackageSnapshot) -> tuple[str, ...]:
        """The complaints of `pip check` that weren't there before. The same lack in other versions isn't a new one."""
        known = set(map(complaint, before.problems))
        return tuple(problem for problem in self._problems() if complaint(problem) not in known)

    def restore(self, before: PackageSnapshot, timeout: float) -> RestoreResult:
        """Restore the versions of a snapshot as far as possible. `PackagesError` if pip can't list the packages.

        New packages are uninstalled; changed and missing ones are installed by version, without dependencies. A
        package from a folder is only compared: restore the code first.
        """
        deadline = time.monotonic() + timeout
        try:
            now = self._versions()
        except NoPipError:  # a pip that was killed while it replaced itself is gone; Python brings one along
            if not self._run(ENSUREPIP, timeout).ok:
                raise
            now = self._versions()
        found = differing(before.versions, now)
        new = [package.name for package in found if not package.before]
        old = [package.before for package in found if brings_back(package.before)]
        if not new and not old:
            return RestoreResult(left=found)
        # New packages first: uninstalling one later would take files that it shares with an old one.
        forcing = [word for word in self._pip_args if word == FORCING]
        reasons = self._change_all(["uninstall", "--yes", *forcing], new, deadline)
        reasons += self._change_all(["install", *self._pip_args, "--force-reinstall", "--no-deps"], old, deadline)
        left = differing(before.versions, self._versions())
        names = {package.name for package in left}
        restored = tuple(package for package in found if package.name not in names)
        return RestoreResult(restored, left, " ".join(dict.fromkeys(reasons)) if left else "")

    def _change_all(self, words: list[str], requirements: list[str], deadline: float) -> list[str]:
        """Run pip for all of these; if that fails, for one after the other. Returns the failures."""
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
        return [reason for one in requirements for reason in self._change_all(words, [one], deadline)]

    def _versions(self) -> Mapping[str, str]:
        ran = self._run([*PIP, *OPTIONS, "freeze", "--all"], READING_SECONDS, keep_bytes=READING_BYTES)
        if not ran.ok:
            raise failure(ran, self.python, "freeze", READING_SECONDS, self._masking)
        versions = read_freeze(ran.output)
        if not versions:  # a pip always lists itself
            raise PackagesError(f"{self.python} doesn't behave like a Python with pip.", remedy=CORRECT_PYTHON)
        return versions

    def _problems(self) -> tuple[str, ...]:
        ran = self._run([*PIP, *OPTIONS, "check"], READING_SECONDS, keep_bytes=READING_BYTES)
        problems = tuple(line.strip() for line in ran.output.splitlines() if line.strip())
        if not ran.ok and (ran.exit_code != 1 or ran.timed_out or not problems):
            raise failure(ran, self.python, "check", READING_SECONDS, self._masking)
        return () if ran.ok else problems

    def _change(self, words: Sequence[str], timeout: float) -> ProgramResult:
        # A pip that is killed leaves what it has downloaded and half built, which may be gigabytes.
        try:
            with tempfile.TemporaryDirectory(prefix="supervisor-pip-", ignore_cleanup_errors=True) as folder:
                return self._run([*PIP, *OPTIONS, *words], timeout, {"TMPDIR": folder, "TEMP": folder, "TMP": folder})
        except OSError as error:
            raise PackagesError(f"Couldn't create a folder for pip's temporary files: {error.strerror}.") from None

    def _run(
        self,
        words: Sequence[str],
        timeout: float,
        variables: Mapping[str, str] | None = None,
        keep_bytes: int = KEPT_BYTES,
    ) -> ProgramResult:
        # In the checkout, since a requirement such as `./wheels/x.whl` starts there.
        environment = {**self._environment, **(variables or {})}
        try:
            return run_command(
                [self.python, *words], cwd=self.folder, env=environment, timeout=timeout, keep_bytes=keep_bytes
            )
        except ProgramError as error:
            remedy = CORRECT_PYTHON if self.folder.is_dir() else "Fix workers.ID.code.path."
            raise PackagesError(error.message, remedy=remedy) from None


def is_pip_running(python: str) -> bool:
    """True if a pip that we started for this Python still runs, such as one that outlives its supervisor."""
    import psutil  # seldom needed

    ours = [python, *PIP, *OPTIONS]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = process.cmdline()
            # If `python` is a script, the shell that reads it comes first.
            if any(words[at : at + len(ours)] == ours for at, word in enumerate(words) if word == python):
                return True
    return False


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    pairs = ((name, before.get(name, ""), now.get(name, "")) for name in sorted({*before, *now}))
    return tuple(Difference(name, one, other) for name, one, other in pairs if one != other)


def brings_back(requirement: str) -> bool:
    """True if this requirement means the same package tomorrow: a version, or an address with a hash or a commit.

    A folder may have other content by then, and an address with a masked login can't be used.
    """
    if _BY_VERSION.fullmatch(requirement):
        return True
    by_address = _BY_ADDRESS.fullmatch(requirement)
    return bool(by_address and MASK not in requirement and _PINNED_ADDRESS.fullmatch(by_address[2]))


def short_requirement(requirement: str) -> str:
    """A requirement without its name."""
    match = _BY_VERSION.fullmatch(requirement) or _BY_ADDRESS.fullmatch(requirement)
    return match[2] if match else requirement


def read_freeze(output: str) -> Mapping[str, str]:
    """The packages that `pip freeze` lists, by normalized names and without logins."""
    versions: dict[str, str] = {}
    remarked = ""
    for line in map(str.strip, output.splitlines()):
        if line.startswith("#"):
            remark = _REMARK.match(line)
            remarked = remark[1] if remark else remarked
            continue
        name = ""
        if line.startswith("-e "):
            egg = _EGG.search(line)
            name = egg[1] if egg else remarked or re.split(r"[/\\]", line)[-1]
        elif match := _BY_VERSION.fullmatch(line) or _BY_ADDRESS.fullmatch(line):
            name = match[1]
        if name:
            versions[normalize_name(name)] = without_query(_LOGIN.sub(f"{MASK}@", line))
        remarked = ""
    return MappingProxyType(versions)


def normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def complaint(problem: str) -> tuple[str, ...]:
    """The subject of a line of `pip check`: which package lacks what, whatever their versions."""
    match = _COMPLAINT.match(problem)
    return (normalize_name(match[1]), match[2]) if match else (problem,)


def pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    own = {
        name: value
        for name, value in environ.items()
        if name.upper() in KEPT or (name.upper().startswith("PIP_") and name.upper() not in DIVERTING)
    }
    return {**git_environment(environ), **own, **FORCED}


def masking_for(pip_args: Sequence[str], environment: Mapping[str, str]) -> Masking:
    """A mask for all logins that pip is given."""

    def logins() -> Iterator[str]:
        for text in (*pip_args, *environment.values()):
            for found in _LOGIN_IN_TEXT.finditer(text):
                user, _, password = found[1].partition(":")
                yield password or user
                if len(user) >= LONG_NAME:
                    yield user

    named = {value for name, value in environment.items() if name.startswith("PIP_") and _SECRET_NAME.search(name)}
    return Masking(named | set(logins()))


def last_words(ran: ProgramResult, masking: Masking) -> str:
    """The end of pip's output in one line, each line once, without frames and advice."""
    lines = dict.fromkeys(
        line.strip(_FRAME) for line in masking.text(without_query(ran.errors.strip() or ran.output)).splitlines()
    )
    text = " ".join(line for line in lines if line and not line.startswith(_SAYS_NOTHING))
    return text if len(text) <= LONGEST_WORDS else "… " + text[-LONGEST_WORDS:].partition(" ")[2]


def failure(ran: ProgramResult, python: str, command: str, timeout: float, masking: Masking) -> PackagesError:
    """The error for a failed run of pip, with a remedy where one is known."""
    if _NO_PIP.fullmatch(ran.errors.strip()):
        return NoPipError(
            f"Python {python} has no pip.",
            remedy=f"Run `{python} -m ensurepip`, or give the worker its own virtual environment.",
        )
    if _MANAGED in ran.errors:
        return PackagesError(
            f"Python {python} is managed by the system, which doesn't let pip change its packages.",
            remedy="Give the worker its own virtual environment (workers.ID.python), or set "
            "workers.ID.code.pip_args: [--break-system-packages].",
        )
    words = last_words(ran, masking)
    if ran.timed_out:
        last = f" Last output: {words}" if words else ""
        return PackagesError(f"`pip {command}` timed out after {timeout:.3g} s.{last}")
    return PackagesError(f"`pip {command}` failed: {words or 'no output.'}")
