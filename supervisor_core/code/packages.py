"""The one door to pip: the packages of a worker's Python, read, installed, and restored.

The packages before an installation are recorded first, so that an interrupted one can be reported and undone. The
record stays after the command: its outcome is stored later, and a crash may come between.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from supervisor_core.code.change_plan import CodePlan, list_names
from supervisor_core.code.git import git_environment, top_of
from supervisor_core.common.errors import SupervisorError
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.locks import FileLock
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.programs import KEPT_BYTES, ProgramError, ProgramResult, run_command
from supervisor_core.host.web import MASK, without_query
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext

if TYPE_CHECKING:
    from supervisor_core.code.planning import Checkout

_AS_MAIN = "import sys; '' in sys.path and sys.path.remove(''); import runpy; runpy._run_module_as_main('pip')"
PIP = ("-c", _AS_MAIN)
"""What `-m pip` does, but without the current folder on the path: a `typing.py` or `pip.py` of the checkout would be
run instead. PYTHONSAFEPATH would also reach the builds that pip starts, which may import from their own folder, and
Python before 3.11 doesn't know it."""

ENSUREPIP = ("-I", "-m", "ensurepip")
OPTIONS = ("--no-input", "--disable-pip-version-check", "--no-color")
FORCING = "--break-system-packages"
"""The one further argument that uninstalling needs as well."""

READING_SECONDS = 60.0
"""The time limit for reading: a second with a few hundred packages, far more on a slow disk."""

READING_BYTES = 4 * 1024 * 1024
"""The limit for a list: some ten thousand packages. A list with a gap would be one of packages that vanished."""

CORRECT_PYTHON = "Set workers.ID.python to the worker's own interpreter."
CORRECT_REQUIREMENTS = "Fix workers.ID.code.requirements. If it's empty, nothing is installed."

FOLDER = "packages"
"""The folder in the state folder with the records. They stay for a month, until an interrupted host is looked after."""

NAMED_PACKAGES = 10  # in a message
LONGEST_MESSAGE = 600
"""Characters of pip's output in an error: the end of a build's traceback."""

LONG_NAME = 16
"""Characters. A longer user name in an address is a token, as some hosts want it."""

WAIT_SECONDS = 0.2

KEPT_VARIABLES = frozenset(
    {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC", "XDG_CACHE_HOME"}
)
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
_NO_PIP = re.compile(r".+: No module named pip(\.__main__;.*)?")  # within more text, it's a build that lacks pip
_MANAGED = "externally-managed-environment"
_FRAME = " \t│╰─>"
_ADVICE = (
    *("note: ", "hint: ", "[notice]", "[end of output]", "See above for output"),
    *("WARNING: Running pip as the 'root' user", "WARNING: Ignoring invalid distribution"),
    "WARNING: You are using pip",
)


class PackagesError(SupervisorError):
    """The packages couldn't be changed or read."""


class NoPipError(PackagesError):
    """This Python has no pip."""


class Difference(NamedTuple):
    """A package that isn't as it was. An empty text means that it wasn't or isn't installed."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        before, now = _short_requirement(self.before), _short_requirement(self.now)
        if not before:
            return f"{self.name} {now} (added)"
        return f"{self.name} {before} → {now}" if now else f"{self.name} {before} (removed)"


class Packages:
    """The packages of one Python, for the checkout in `folder` and its requirements file."""

    def __init__(
        self,
        python: str,
        folder: Path,
        pip_args: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        *,
        requirements: str = "",
        timeout: float = 600.0,
    ) -> None:
        self.python = python
        self.folder = folder
        self.requirements = requirements
        self.timeout = timeout
        self._pip_args = tuple(pip_args)
        self._environment = pip_environment(os.environ if environ is None else environ)
        secrets = {
            value for name, value in self._environment.items() if name.startswith("PIP_") and _SECRET_NAME.search(name)
        }
        for text in (*self._pip_args, *self._environment.values()):
            for login in _LOGIN_IN_TEXT.finditer(text):
                user, _, password = login[1].partition(":")
                secrets |= {password or user, *([user] if len(user) >= LONG_NAME else [])}
        self._masking = Masking(secrets)

    @property
    def file(self) -> Path:
        """The requirements file, normalized: two workers may name the same one by different paths."""
        return Path(os.path.normpath(self.folder.resolve() / self.requirements))

    def named(self, checkout: Checkout) -> str:
        return (
            self.file.relative_to(checkout.top).as_posix() if self.file.is_relative_to(checkout.top) else str(self.file)
        )

    def versions(self) -> dict[str, str]:
        """The requirement of each package as pip writes it, by normalized name: `name==1.2`, `name @ URL`, `-e PATH`.

        It holds no password, so it may be kept and shown.
        """
        ran = self._run([*PIP, *OPTIONS, "freeze", "--all"], READING_SECONDS, keep_bytes=READING_BYTES)
        if not ran.ok:
            raise self._error(ran, "freeze", READING_SECONDS)
        versions: dict[str, str] = {}
        remarked = ""
        for line in map(str.strip, ran.output.splitlines()):
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
                versions[_normalize_name(name)] = without_query(_LOGIN.sub(f"{MASK}@", line))
            remarked = ""
        if not versions:  # a pip always lists itself
            raise PackagesError(f"{self.python} doesn't behave like a Python with pip.", remedy=CORRECT_PYTHON)
        return versions

    def problems(self) -> list[str]:
        """The complaints of `pip check`."""
        ran = self._run([*PIP, *OPTIONS, "check"], READING_SECONDS, keep_bytes=READING_BYTES)
        problems = [line.strip() for line in ran.output.splitlines() if line.strip()]
        if not ran.ok and (ran.exit_code != 1 or ran.timed_out or not problems):
            raise self._error(ran, "check", READING_SECONDS)
        return [] if ran.ok else problems

    def new_problems(self, before: Sequence[str]) -> list[str]:
        """The complaints that weren't there before. The same lack in other versions isn't a new one."""

        def subject(problem: str) -> tuple[str, ...]:
            match = _COMPLAINT.match(problem)
            return (_normalize_name(match[1]), match[2]) if match else (problem,)

        known = set(map(subject, before))
        return [problem for problem in self.problems() if subject(problem) not in known]

    def install(self) -> None:
        """Install the requirements file. After a `PackagesError`, any package may have changed."""
        path, top = self.folder.absolute() / self.requirements, top_of(self.folder)
        if not path.resolve().is_relative_to(top):
            problem = f"{self.requirements} is outside the checkout {top}."
            raise PackagesError(problem, remedy=CORRECT_REQUIREMENTS)
        if not path.is_file():
            raise PackagesError(f"{self.folder} has no file {self.requirements}.", remedy=CORRECT_REQUIREMENTS)
        # The path is used unresolved: what the file includes is beside it, not where it may point to.
        ran = self._change(["install", *self._pip_args, "-r", str(path)], self.timeout)
        if not ran.ok:
            raise self._error(ran, "install", self.timeout)

    def restore(self, before: Mapping[str, str]) -> str:
        """Restore these versions as far as possible. Returns what couldn't be restored; empty if nothing is left.

        New packages are uninstalled; changed and missing ones are installed by version, without dependencies. A
        package from a folder is only compared: restore the code first. `PackagesError` if pip can't list the packages.
        """
        deadline = time.monotonic() + self.timeout
        try:
            now = self.versions()
        except NoPipError:  # a pip that was killed while it replaced itself is gone; Python brings one along
            if not self._run(ENSUREPIP, self.timeout).ok:
                raise
            now = self.versions()
        different = differences(before, now)
        new = [package.name for package in different if not package.before]
        old = [package.before for package in different if _is_reproducible(package.before)]
        # New packages first: uninstalling one later would take files that it shares with an old one.
        forcing = [argument for argument in self._pip_args if argument == FORCING]
        reasons = self._change_all(["uninstall", "--yes", *forcing], new, deadline)
        reasons += self._change_all(["install", *self._pip_args, "--force-reinstall", "--no-deps"], old, deadline)
        left = differences(before, self.versions()) if new or old else different
        if not left:
            return ""
        packages = "; ".join(
            f"{name} is {_short_requirement(now) or 'missing'}, was {_short_requirement(before) or 'missing'}"
            for name, before, now in left
        )
        return f"Not restored: {packages}. {' '.join(dict.fromkeys(reasons))}".rstrip()

    def _change_all(self, arguments: list[str], requirements: list[str], deadline: float) -> list[str]:
        """Run pip for all of these; if that fails, for one after the other. Returns the failures."""
        left = deadline - time.monotonic()
        if not requirements:
            return []
        if left <= 0:
            return ["No time was left for the other packages."]
        ran = self._change([*arguments, *requirements], left)
        if ran.ok:
            return []
        if len(requirements) == 1 or ran.timed_out:
            return [str(self._error(ran, arguments[0], left))]
        return [reason for one in requirements for reason in self._change_all(arguments, [one], deadline)]

    def _change(self, arguments: Sequence[str], timeout: float) -> ProgramResult:
        # A pip that is killed leaves what it has downloaded and half built, which may be gigabytes.
        try:
            with tempfile.TemporaryDirectory(prefix="supervisor-pip-", ignore_cleanup_errors=True) as folder:
                variables = {"TMPDIR": folder, "TEMP": folder, "TMP": folder}
                return self._run([*PIP, *OPTIONS, *arguments], timeout, variables)
        except OSError as error:
            raise PackagesError(f"Couldn't create a folder for pip's temporary files: {error.strerror}.") from None

    def _run(
        self,
        arguments: Sequence[str],
        timeout: float,
        variables: Mapping[str, str] | None = None,
        keep_bytes: int = KEPT_BYTES,
    ) -> ProgramResult:
        environment = {**self._environment, **(variables or {})}
        command = [
            self.python,
            *arguments,
        ]  # in the checkout, since a requirement such as `./wheels/x.whl` starts there
        try:
            return run_command(command, cwd=self.folder, env=environment, timeout=timeout, keep_bytes=keep_bytes)
        except ProgramError as error:
            remedy = CORRECT_PYTHON if self.folder.is_dir() else "Fix workers.ID.code.path."
            raise PackagesError(error.message, remedy=remedy) from None

    def _error(self, ran: ProgramResult, command: str, timeout: float) -> PackagesError:
        """The error for a failed run of pip, with a remedy where one is known."""
        if _NO_PIP.fullmatch(ran.errors.strip()):
            return NoPipError(
                f"Python {self.python} has no pip.",
                remedy=f"Run `{self.python} -m ensurepip`, or give the worker its own virtual environment.",
            )
        if _MANAGED in ran.errors:
            return PackagesError(
                f"Python {self.python} is managed by the system, which doesn't let pip change its packages.",
                remedy="Give the worker its own virtual environment (workers.ID.python), or set "
                "workers.ID.code.pip_args: [--break-system-packages].",
            )
        # The end of its output in one line, each line once, without frames and advice.
        output = self._masking.text(without_query(ran.errors.strip() or ran.output))
        lines = dict.fromkeys(line.strip(_FRAME) for line in output.splitlines())
        text = " ".join(line for line in lines if line and not line.startswith(_ADVICE))
        if len(text) > LONGEST_MESSAGE:
            text = "… " + text[-LONGEST_MESSAGE:].partition(" ")[2]
        if ran.timed_out:
            last = f" Last output: {text}" if text else ""
            return PackagesError(f"`pip {command}` timed out after {timeout:.3g} s.{last}")
        return PackagesError(f"`pip {command}` failed: {text or 'no output.'}")


def pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    own = {
        name: value
        for name, value in environ.items()
        if name.upper() in KEPT_VARIABLES or (name.upper().startswith("PIP_") and name.upper() not in DIVERTING)
    }
    return {**git_environment(environ), **own, **FORCED}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    packages = (Difference(name, before.get(name, ""), now.get(name, "")) for name in sorted({*before, *now}))
    return [package for package in packages if package.before != package.now]


def _is_reproducible(requirement: str) -> bool:
    """True if this requirement means the same package tomorrow: a version, or an address with a hash or a commit.

    A folder may have other content by then, and an address with a masked login can't be used.
    """
    if _BY_VERSION.fullmatch(requirement):
        return True
    by_address = _BY_ADDRESS.fullmatch(requirement)
    return bool(by_address and MASK not in requirement and _PINNED_ADDRESS.fullmatch(by_address[2]))


def _short_requirement(requirement: str) -> str:
    """A requirement without its name."""
    match = _BY_VERSION.fullmatch(requirement) or _BY_ADDRESS.fullmatch(requirement)
    return match[2] if match else requirement


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """One Python with all that is installed into it, and its packages before."""

    installations: Sequence[Packages]
    versions: Mapping[str, str]
    problems: Sequence[str]

    @property
    def python(self) -> str:
        return self.installations[0].python

    def restore(self) -> str:
        """Restore the packages, and return the result as a sentence."""
        try:
            return _restore(self.installations, self.versions)
        except SupervisorError as error:
            return f"Couldn't tell whether the packages were restored. {error}"


def _changes_since(before: Mapping[str, str], packages: Packages) -> dict[str, Any]:
    """The differences of an environment, for results and for an undo."""
    different = differences(before, packages.versions())
    return {
        "python": packages.python,
        "changed": [str(package) for package in different],
        "before": {package.name: package.before for package in different},
        "after": {package.name: package.now for package in different},
    }


def _restore(installations: Sequence[Packages], before: Mapping[str, str]) -> str:
    """Restore with the pip arguments of one worker after the other: what one doesn't find, another may."""
    failure = ""
    for packages in installations:
        failure = packages.restore(before)
        if not failure:
            return "All packages are restored."
    return failure


def installations_of(host: HostContext, checkout: Checkout) -> list[Packages]:
    """Each requirements file once for each Python, sorted by Python."""
    installations: dict[tuple[str, Path], Packages] = {}
    for worker in checkout.workers:
        python, code = host.config.python_for(worker), worker.code
        if code.requirements:
            limit, name = code.pip_timeout_seconds, code.requirements
            packages = Packages(python, code.path, code.pip_args, requirements=name, timeout=limit)
            installations.setdefault((packages.python, packages.file), packages)
    return [installations[key] for key in sorted(installations)]


def check_requirements(checkout: Checkout, installations: Sequence[Packages], plan: CodePlan) -> None:
    """Raise `PackagesError` if the new code lacks a requirements file, or a Python doesn't exist."""
    for packages in installations:
        if shutil.which(packages.python) is None:
            raise PackagesError(
                f"Python {packages.python} doesn't exist.",
                remedy="Fix workers.ID.python, or create that virtual environment.",
            )
        if packages.file.is_file() and (plan.leaves_code or plan.kept):
            continue
        name = f"{plan.target}:{packages.named(checkout)}"
        if not packages.file.is_relative_to(checkout.top) or checkout.git.find("cat-file", "-e", name) is None:
            raise PackagesError(f"The new code has no file {packages.requirements}.", remedy=CORRECT_REQUIREMENTS)


@contextlib.contextmanager
def locked_environments(host: HostContext, checkout: Checkout) -> Iterator[list[PythonEnvironment]]:
    """The environments of a checkout, each locked: another checkout that shares one would take these changes for its
    own mistake."""
    by_python: dict[str, list[Packages]] = {}
    for packages in installations_of(host, checkout):
        by_python.setdefault(packages.python, []).append(packages)
    with contextlib.ExitStack() as locks:
        for installations in by_python.values():
            locks.enter_context(_lock(host, installations[0]))
        yield [
            PythonEnvironment(installations, installations[0].versions(), installations[0].problems())
            for installations in by_python.values()
        ]


def _lock(host: HostContext, packages: Packages) -> FileLock:
    """Lock this Python, for as long as an installation may take."""
    locks = host.config.state_dir / "locks"
    locks.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    key = hashlib.sha256(packages.python.encode()).hexdigest()[:16]
    lock = FileLock(locks / f"python_{key}.lock", f"an installation for {packages.folder}")
    return lock.acquire(timeout=packages.timeout)


def install_requirements(
    host: HostContext, task_id: str, checkout: Checkout, environments: Sequence[PythonEnvironment]
) -> list[dict[str, Any]]:
    """Record the installed packages, install and check. Returns the changes; after an error, restore the packages."""
    documents = [
        {  # without pip's arguments: they may hold a password
            "python": environment.python,
            "folder": str(environment.installations[0].folder),
            "requirements": [str(packages.file) for packages in environment.installations],
            "versions": dict(environment.versions),
        }
        for environment in environments
    ]
    folder = host.config.state_dir / FOLDER
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        write_json(folder / f"{task_id}.json", {"task_id": task_id, "environments": documents})
    except OSError as error:
        raise PackagesError(f"Couldn't record the installed packages in {folder}. {error}") from None
    for environment in environments:
        for packages in environment.installations:
            host.progress(f"installing {packages.named(checkout)} into {environment.python}")
            packages.install()
        if problems := environment.installations[0].new_problems(environment.problems):
            raise PackagesError(f"The installed packages conflict: {list_names(problems, NAMED_PACKAGES).rstrip('.')}.")
    return [_changes_since(environment.versions, environment.installations[0]) for environment in environments]


def restore_recorded(host: HostContext, checkout: Checkout, records: Sequence[Mapping[str, Any]]) -> str:
    """Restore what an earlier update installed, unless it was changed since. Returns the result in words."""
    results = []
    for record in records:
        python, before, after = str(record["python"]), record["before"], record["after"]
        installations = [packages for packages in installations_of(host, checkout) if packages.python == python]
        code = checkout.code
        if not installations:  # no longer configured
            installations = [Packages(python, code.path, code.pip_args, timeout=code.pip_timeout_seconds)]
        with _lock(host, installations[0]):
            now = installations[0].versions()
            ours = {name: version for name, version in before.items() if now.get(name, "") == after.get(name)}
            versions = {name: version for name, version in {**now, **ours}.items() if version}
            results.append(_restore(installations, versions))
    return " ".join(dict.fromkeys(results))


def describe_packages(host: HostContext, job: Job, checkout: Checkout) -> tuple[str, list[dict[str, Any]]] | None:
    """What an interrupted installation changed, in words and as in an update's details, so that an undo finds it; None
    if it recorded nothing yet."""
    try:
        before = read_json(host.config.state_dir / FOLDER / f"{job.task_id}.json")
    except (SupervisorError, OSError) as error:
        return f"Couldn't tell which packages it changed. {error}", []
    if before is None:
        return None
    unknown, records = [], []
    for environment in before["environments"]:
        python = str(environment["python"])
        workers = (worker for worker in checkout.workers if host.config.python_for(worker) == python)
        code = next(workers, checkout.worker).code
        packages = Packages(python, Path(environment["folder"]), code.pip_args, timeout=code.pip_timeout_seconds)
        try:
            with _lock(host, packages):
                deadline = time.monotonic() + packages.timeout
                while is_pip_running(python):
                    if time.monotonic() > deadline:
                        raise PackagesError(f"pip is still running on {python}.")
                    time.sleep(WAIT_SECONDS)
                records.append(_changes_since(environment["versions"], packages))
        except SupervisorError as error:
            unknown.append(f"Couldn't tell which packages of {python} it changed. {error}")
    changed = list(dict.fromkeys(package for record in records for package in record["changed"]))
    words = [f"Packages changed: {list_names(changed, NAMED_PACKAGES)}."] if changed else []
    if not changed and not unknown:
        words = ["Its packages are unchanged."]
    return " ".join(words + unknown), [record for record in records if record["changed"]]


def is_pip_running(python: str) -> bool:
    """True if a pip that we started for this Python still runs, such as one that outlives its supervisor."""
    import psutil  # seldom needed

    ours = [python, *PIP, *OPTIONS]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            command = process.cmdline()
            # If `python` is a script, the shell that reads it comes first.
            if any(command[at : at + len(ours)] == ours for at, word in enumerate(command) if word == python):
                return True
    return False
