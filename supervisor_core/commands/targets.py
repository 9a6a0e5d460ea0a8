"""Targets: a worker id, `team:NAME`, a pattern or `all`, and the workers that each of them means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from supervisor_core.commands.grammar_errors import GrammarError, NearMiss
from supervisor_core.commands.words import excerpt
from supervisor_core.common.text import nearest, nearly

WORKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}")
ALL = "all"
TEAM = "team:"
PATTERN = frozenset("*?[")
MAX_PATTERN = 100  # characters; a worker id has at most 64
NAMED = 8  # workers that an error lists before it says how many more there are

_NO_TEAMS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GrammarContext:
    """The possible targets of a command: workers in their order, teams, and the default worker."""

    workers: tuple[str, ...]
    teams: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_TEAMS)
    default_worker: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "teams", MappingProxyType(dict(self.teams)))

    @property
    def default(self) -> str | None:
        """The worker that is meant when none is named: the only one, else the configured one."""
        if len(self.workers) == 1:
            return self.workers[0]
        return self.default_worker if self.default_worker in self.workers else None


def resolve(word: str, context: GrammarContext) -> tuple[str, ...] | None:
    """The workers that a word means, in their configured order; None for a word that is no target.

    A team or a pattern that means nobody is a `GrammarError`: its writer meant somebody.
    """
    if word in context.workers:
        return (word,)
    if word == ALL:
        return _somebody(context.workers, "There are no workers yet: none is configured.")
    if word.startswith(TEAM):
        return _team(word.removeprefix(TEAM), context)
    if PATTERN.intersection(word):
        return _pattern(word, context)
    return None


def ask_if_nearly(word: str, context: GrammarContext, *, otherwise: str) -> None:
    """`NearMiss` for a word that is almost a target: acting on a guess may act on the wrong worker."""
    names = tuple(name for name in context.workers if name.casefold() == word.casefold())
    names = names or nearly(word, context.workers)
    if not names and word.casefold() == ALL:
        names = (ALL,)
    if not names and word.casefold().startswith(TEAM):
        names = (TEAM + word[len(TEAM) :],)
    if names:
        choice = " or ".join(excerpt(name) for name in names[:NAMED])
        raise NearMiss(
            f"{excerpt(word)} is no worker, but nearly {choice}. Write it exactly, "
            f"or put it in double quotes where it is meant as text.",
            names,
            otherwise=otherwise,
        )


def unknown_target(word: str, context: GrammarContext) -> GrammarError:
    """A word that stands where only a target can stand, and is none."""
    known = ", ".join(context.workers[:NAMED]) or "none is configured"
    more = len(context.workers) - NAMED
    known += f" and {more} more" if more > 0 else ""
    return GrammarError(
        f"{excerpt(word)} is no target here. A target is a worker ({known}), team:NAME, a pattern such as a*, or all.",
        instead=nearest(word, (*context.workers, *(TEAM + name for name in context.teams), ALL)),
    )


def _team(name: str, context: GrammarContext) -> tuple[str, ...]:
    if name not in context.teams:
        known = ", ".join(list(context.teams)[:NAMED]) or "there are none"
        found = nearest(name, context.teams)
        raise GrammarError(f"There is no team {excerpt(name)}. Teams: {known}.", instead=found and TEAM + found)
    members = frozenset(context.teams[name])
    chosen = tuple(worker for worker in context.workers if worker in members)
    return _somebody(chosen, f"The team {excerpt(name)} has no workers here.")


def _pattern(pattern: str, context: GrammarContext) -> tuple[str, ...]:
    if len(pattern) > MAX_PATTERN:
        raise GrammarError(f"A pattern has at most {MAX_PATTERN} characters; this one has {len(pattern)}.")
    chosen = tuple(worker for worker in context.workers if fnmatchcase(worker, pattern))
    if chosen:
        return chosen
    raise GrammarError(
        f"No worker matches {excerpt(pattern)}. If it is meant as text, put it in double quotes.",
        instead=_alike(pattern, context),
    )


def _alike(pattern: str, context: GrammarContext) -> str | None:
    """The pattern in the case that the workers are written in, else the worker it comes nearest to."""
    folded = pattern.casefold()
    for worker in context.workers:
        if fnmatchcase(worker.casefold(), folded):
            start = min(pattern.find(character) for character in PATTERN if character in pattern)
            recased = worker[:start] + pattern[start:]
            return recased if fnmatchcase(worker, recased) else worker
    return nearest("".join(character for character in pattern if character not in "*?[]!"), context.workers)


def _somebody(workers: tuple[str, ...], otherwise: str) -> tuple[str, ...]:
    if not workers:
        raise GrammarError(otherwise)
    return workers
