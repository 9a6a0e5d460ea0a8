"""Targets: a worker id, `team:NAME`, a pattern or `all`, and the workers that each of them means. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
NO_WORKERS = "No workers are configured."

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
        """The worker of a command that changes something and names none: the only one, else the configured one."""
        if len(self.workers) == 1:
            return self.workers[0]
        return self.default_worker if self.default_worker in self.workers else None

    @property
    def every_worker(self) -> str:
        """The target of a command that only reads and names none: `all`, or the only worker."""
        return self.workers[0] if len(self.workers) == 1 else ALL


def canonical_target(word: str, context: GrammarContext) -> str:
    """The target in the case in which it's configured; the word itself where that isn't clear."""
    if word.casefold() == ALL and not find_name(word, context.workers):
        return ALL
    if word[: len(TEAM)].casefold() == TEAM:
        name = word[len(TEAM) :]
        return TEAM + (find_name(name, context.teams) or name)
    return find_name(word, context.workers) or word


def find_name(word: str, names: Iterable[str]) -> str | None:
    """The name that a word is: exactly, else the only one that differs in case alone."""
    known = tuple(names)
    if word in known:
        return word
    folded = word.casefold()
    found = [name for name in known if name.casefold() == folded]
    return found[0] if len(found) == 1 else None


def resolve(word: str, context: GrammarContext) -> tuple[str, ...] | None:
    """The workers that a word means in any case, in their configured order; None for a word that isn't a target.

    A team or a pattern without workers is a `GrammarError`, because its writer meant somebody.
    """
    target = canonical_target(word, context)
    if target in context.workers:
        return (target,)
    if target == ALL:
        return _somebody(context.workers, NO_WORKERS)
    if target.startswith(TEAM):
        return _team(target.removeprefix(TEAM), context)
    if PATTERN.intersection(target):
        return _pattern(target, context)
    return None


def ask_if_nearly(word: str, context: GrammarContext, *, otherwise: str) -> None:
    """`NearMiss` for a word that is almost a target: acting on a guess may act on the wrong worker."""
    names = tuple(name for name in context.workers if name.casefold() == word.casefold())
    names = names or nearly(word, context.workers)
    if names:
        choice = " or ".join(excerpt(name) for name in names[:NAMED])
        closest = f"the closest is {choice}" if len(names) == 1 else f"the closest are {choice}"
        raise NearMiss(
            f"There's no worker {excerpt(word)}; {closest}. If it's meant as text, put it in double quotes.",
            names,
            otherwise=otherwise,
        )


def unknown_target(word: str, context: GrammarContext) -> GrammarError:
    """The error for a word in the place of a target that doesn't name one."""
    known = ", ".join(context.workers[:NAMED]) or "none are configured"
    more = len(context.workers) - NAMED
    known += f" and {more} more" if more > 0 else ""
    return GrammarError(
        f"{excerpt(word)} isn't a target. Use a worker ({known}), team:NAME, a pattern such as a*, or all.",
        instead=nearest(word, (*context.workers, *(TEAM + name for name in context.teams), ALL)),
    )


def _team(name: str, context: GrammarContext) -> tuple[str, ...]:
    if name not in context.teams:
        known = ", ".join(list(context.teams)[:NAMED])
        teams = f"Teams: {known}." if known else "No teams are configured."
        found = nearest(name, context.teams)
        raise GrammarError(f"There's no team {excerpt(name)}. {teams}", instead=found and TEAM + found)
    members = frozenset(context.teams[name])
    chosen = tuple(worker for worker in context.workers if worker in members)
    return _somebody(chosen, f"Team {excerpt(name)} has no workers on this host.")


def _pattern(pattern: str, context: GrammarContext) -> tuple[str, ...]:
    if len(pattern) > MAX_PATTERN:
        raise GrammarError(f"A pattern can have up to {MAX_PATTERN} characters; this one has {len(pattern)}.")
    folded = pattern.casefold()
    chosen = tuple(worker for worker in context.workers if fnmatchcase(worker.casefold(), folded))
    if chosen:
        return chosen
    raise GrammarError(
        f"No worker matches {excerpt(pattern)}. If it's meant as text, put it in double quotes.",
        instead=nearest("".join(character for character in pattern if character not in "*?[]!"), context.workers),
    )


def _somebody(workers: tuple[str, ...], otherwise: str) -> tuple[str, ...]:
    if not workers:
        raise GrammarError(otherwise)
    return workers
