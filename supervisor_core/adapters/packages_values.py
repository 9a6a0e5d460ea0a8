"""The packages of a Python as values, read from pip's lists: what is there, what is broken, what differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from supervisor_core.adapters.addresses import MASK, without_query

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
class Snapshot:
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
        before, now = short(self.before), short(self.now)
        if not before:
            return f"{self.name} {now} is new"
        return f"{self.name} {before} became {now}" if now else f"{self.name} {before} is gone"


@dataclass(frozen=True, slots=True)
class Restored:
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
            return "All packages are as they were."
        each = "; ".join(
            f"{one.name}: {short(one.before) or 'none'} wanted, {short(one.now) or 'none'} present" for one in self.left
        )
        return " ".join(filter(None, (f"Not put back: {each}.", self.reason)))


def differences(before: Snapshot, now: Snapshot) -> tuple[Difference, ...]:
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


def short(requirement: str) -> str:
    """A requirement without its name, for somebody who is told the name anyway."""
    match = _BY_VERSION.fullmatch(requirement) or _BY_ADDRESS.fullmatch(requirement)
    return match[2] if match else requirement


def read_freeze(output: str) -> Mapping[str, str]:
    """What `pip freeze` lists, by normalised names and without logins."""
    return MappingProxyType({normalised(name): _shown(line) for name, line in _named(output.splitlines())})


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


def normalised(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _shown(line: str) -> str:
    return without_query(_LOGIN.sub(f"{MASK}@", line))


def complaint(problem: str) -> tuple[str, ...]:
    """What a line of `pip check` is about: who lacks what, in whichever versions they are there."""
    match = _COMPLAINT.match(problem)
    return (normalised(match[1]), match[2]) if match else (problem,)
