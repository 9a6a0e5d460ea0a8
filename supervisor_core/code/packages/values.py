"""The packages of a Python as values, read from pip's lists: what is there, what is broken, what differs.

What pip runs with, and what is told of its words: the end of them, without passwords, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from supervisor_core.code.git.runner import git_environment
from supervisor_core.common.errors import SupervisorError
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.programs import ProgramResult
from supervisor_core.host.web import MASK, without_query

_EDITABLE = "-e "
_EGG = re.compile(r"#(?:.*&)?egg=([A-Za-z0-9._-]+)")
_REMARK = re.compile(r"#.*\(([A-Za-z0-9._-]+?)===?[^)]*\)")  # the name of an editable one stands in the line before it
_BY_VERSION = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)===?(\S+)")
_BY_ADDRESS = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*) @ (\S+)")
_PINNED_ADDRESS = re.compile(r"(?:git|hg)\+\S+@[0-9a-f]{40}(?:#\S*)?|[^\s#]+#(?:\S*&)?sha(?:256|384|512)=[0-9a-f]+")

# A login, but for the `git@` that every address of SSH has.
_LOGIN = re.compile(r"(?<=://)(?!git@)[^/\s]*@")

_COMPLAINT = re.compile(r"(\S+) \S+ (?:has requirement|requires) (.+?), (?:but you have|which is not installed)")


@dataclass(frozen=True, slots=True)
class PackageSnapshot:
    """What is installed in an environment at one moment. It holds no password, so it may be kept and shown."""

    versions: Mapping[str, str]
    """By its normalised name, each package's requirement as pip writes it: `name==1.2`, `name @ URL` or `-e PLACE`."""
    problems: tuple[str, ...] = ()
    """What `pip check` complains of."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A package that is not as it was. Empty texts are for one that was not there, or is there no more."""

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
    """What came of bringing packages back."""

    put_back: tuple[Difference, ...] = ()
    """As it was found; each is again as it was before."""
    left: tuple[Difference, ...] = ()
    """What could not be put back, as it is now."""
    reason: str = ""
    """What pip said to that."""

    @property
    def complete(self) -> bool:
        """Whether all packages are what they were."""
        return not self.left

    def __str__(self) -> str:
        if self.complete:
            return "All packages are restored."
        each = "; ".join(
            f"{one.name} is {short_requirement(one.now) or 'missing'}, was {short_requirement(one.before) or 'missing'}"
            for one in self.left
        )
        return " ".join(filter(None, (f"Not restored: {each}.", self.reason)))


def differences(before: PackageSnapshot, now: PackageSnapshot) -> tuple[Difference, ...]:
    """What differs between two looks, by name."""
    return differing(before.versions, now.versions)


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    """The same, of their versions alone."""
    pairs = ((name, before.get(name, ""), now.get(name, "")) for name in sorted({*before, *now}))
    return tuple(Difference(name, one, other) for name, one, other in pairs if one != other)


def brings_back(requirement: str) -> bool:
    """Whether this requirement means the same package tomorrow: a version, or an address with a hash or a commit.

    A folder may have other content by then, and an address whose login is masked is none any more.
    """
    if _BY_VERSION.fullmatch(requirement):
        return True
    by_address = _BY_ADDRESS.fullmatch(requirement)
    return bool(by_address and MASK not in requirement and _PINNED_ADDRESS.fullmatch(by_address[2]))


def short_requirement(requirement: str) -> str:
    """A requirement without its name, for somebody who is told the name anyway."""
    match = _BY_VERSION.fullmatch(requirement) or _BY_ADDRESS.fullmatch(requirement)
    return match[2] if match else requirement


def read_freeze(output: str) -> Mapping[str, str]:
    """What `pip freeze` lists, by normalised names and without logins."""
    return MappingProxyType({normalize_name(name): _shown(line) for name, line in _named(output.splitlines())})


def _named(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    remarked = ""
    for line in map(str.strip, lines):
        if line.startswith("#"):
            remark = _REMARK.match(line)
            remarked = remark[1] if remark else remarked
            continue
        if line.startswith(_EDITABLE):
            egg = _EGG.search(line)
            yield egg[1] if egg else remarked or re.split(r"[/\\]", line)[-1], line
        elif match := _BY_VERSION.fullmatch(line) or _BY_ADDRESS.fullmatch(line):
            yield match[1], line
        remarked = ""


def normalize_name(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _shown(line: str) -> str:
    return without_query(_LOGIN.sub(f"{MASK}@", line))


def complaint(problem: str) -> tuple[str, ...]:
    """What a line of `pip check` is about: who lacks what, in whichever versions they are there."""
    match = _COMPLAINT.match(problem)
    return (normalize_name(match[1]), match[2]) if match else (problem,)


LONGEST_WORDS = 600
"""Characters of what pip says: the end of a build's traceback and what failed, on a card in Slack."""

LONG_NAME = 16
"""Characters. A user's name that is longer is a token, as some hosts want it; a shorter one may be any word."""

KEPT = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC", "XDG_CACHE_HOME"})
"""Beside what git may have (pip runs it for `git+…`, and the proxies are the same): whom to trust, and the login."""

DIVERTING = frozenset(
    f"PIP_{name}"
    for name in (
        *("TARGET", "PREFIX", "ROOT", "USER", "PYTHON", "DRY_RUN", "REQUIREMENT", "EDITABLE"),
        *("PATH", "LOCAL", "EXCLUDE", "EXCLUDE_EDITABLE", "QUIET", "VERBOSE", "NO_DEPS", "IGNORE_INSTALLED"),
    )
)
"""Of pip's own variables those that would lead it to another environment than the worker's, install something else
than is asked for, or change the lists that we read. All others stay: with them a host says where its index is
(PIP_INDEX_URL, PIP_CONFIG_FILE, PIP_CERT), and a `${PIP_…}` in requirements can be a login."""

FORCED = {
    "PIP_NO_INPUT": "1",  # as variables also for the pip that pip starts to build something
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTHONIOENCODING": "utf-8",
}

_SECRET_NAME = re.compile("TOKEN|PASSW|SECRET", re.IGNORECASE)  # not KEY: PIP_KEYRING_PROVIDER=import
_LOGIN_IN_TEXT = re.compile(r"://([^\s/]+)@")

_NO_PIP = re.compile(r".+: No module named pip(\.__main__;.*)?")
"""All that Python says then. Within more words it is a build that lacks it, which is something else."""

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
    """The packages could not be changed or looked at."""


class NoPipError(PackagesError):
    """This Python has no pip."""


def pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What pip runs with."""
    own = {name: value for name, value in environ.items() if name.upper() in KEPT or _is_kept_of_pip(name.upper())}
    return {**git_environment(environ), **own, **FORCED}


def _is_kept_of_pip(name: str) -> bool:
    return name.startswith("PIP_") and name not in DIVERTING


def masking_for(pip_args: Sequence[str], environment: Mapping[str, str]) -> Masking:
    """A mask for all logins that pip is given."""
    texts = (*pip_args, *environment.values())
    named = {value for name, value in environment.items() if name.startswith("PIP_") and _SECRET_NAME.search(name)}
    return Masking(named | {secret for text in texts for secret in _logins(text)})


def _logins(text: str) -> Iterator[str]:
    for found in _LOGIN_IN_TEXT.finditer(text):
        user, _, password = found[1].partition(":")
        yield password or user
        if len(user) >= LONG_NAME:
            yield user


def last_words(ran: ProgramResult, masking: Masking) -> str:
    """The end of what pip says, in one line: what it says twice only once, and without its frames and advice."""
    said = masking.text(without_query(ran.errors.strip() or ran.output))
    lines = dict.fromkeys(line.strip(_FRAME) for line in said.splitlines())
    text = " ".join(line for line in lines if line and not line.startswith(_SAYS_NOTHING))
    if len(text) > LONGEST_WORDS:
        text = "… " + text[-LONGEST_WORDS:].partition(" ")[2]
    return text


def failure(ran: ProgramResult, python: str, doing: str, timeout: float, masking: Masking) -> PackagesError:
    """What went wrong with a run of pip, and what a person can do."""
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
        return PackagesError(f"`pip {doing}` timed out after {timeout:.3g} s.{last}")
    return PackagesError(f"`pip {doing}` failed: {words or 'no output.'}")
