"""Targets: a worker, `team:NAME`, `host:NAME`, a pattern or `all`, with conditions, and the workers they mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType

from supervisor_core.commands.addresses import SEPARATOR, Address, by_address, is_address, name_of
from supervisor_core.commands.conditions import (
    COMMIT,
    FEWEST_DIGITS,
    STATE,
    VALUES,
    VERSION,
    WHERE,
    Clause,
    Facts,
    FactSource,
    TargetCondition,
    in_one_word,
    split_clause,
)
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss
from supervisor_core.commands.words import excerpt
from supervisor_core.common.text import close_names, nearest

WORKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}")
LONGEST_ADDRESS = 64
"""In characters, as a worker's id: the hub stores addresses in the same columns."""

ALL = "all"
TEAM, HOST = "team:", "host:"
SEPARATOR_OF_LIST = ","
PATTERN = frozenset("*?[")
MAX_PATTERN = 100  # characters; a worker id has at most 64
NAMED = 8  # workers that an error lists before it says how many more there are
NO_WORKERS = "No workers are configured."

_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def can_have_address(host: str, worker_id: str) -> bool:
    """True for a worker of another host that the hub can name: its id is valid, and its address isn't too long."""
    return bool(WORKER_ID.fullmatch(worker_id)) and len(str(Address(host, worker_id))) <= LONGEST_ADDRESS


@dataclass(frozen=True, slots=True)
class GrammarContext:
    """The possible targets of a command: workers in their order, teams, hosts, and the default worker.

    A worker of another host is named by its address. `facts` decide conditions; without them, there can't be any.
    """

    workers: tuple[str, ...]
    teams: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NONE)
    default_worker: str = ""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NONE)
    facts: FactSource | None = None
    for_later: bool = False
    """True for a command that runs later: its target means every worker that may match its conditions by then."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "teams", MappingProxyType(dict(self.teams)))
        object.__setattr__(self, "hosts", MappingProxyType(dict(self.hosts)))

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

    @property
    def here(self) -> str:
        """` on this host` in a sentence about its workers; empty in a fleet."""
        return "" if len(self.hosts) > 1 else " on this host"

    @property
    def later(self) -> GrammarContext:
        """The same for a command that runs later."""
        return replace(self, for_later=True)

    def meets(self, workers: Iterable[str], conditions: Iterable[TargetCondition]) -> tuple[str, ...]:
        if self.for_later:
            return tuple(workers)
        if self.facts is None:
            raise GrammarError(f"The states of the workers aren't known here, so a target can't have “{WHERE}”.")
        facts: Facts = self.facts() if callable(self.facts) else self.facts
        wanted = tuple(conditions)
        return tuple(each for each in workers if all(one.matches(facts.get(each, {})) for one in wanted))


def canonical_target(word: str, context: GrammarContext) -> str:
    """The target in the case in which it's configured; the word itself where that isn't clear."""
    clause = _clause(word, context)
    if clause:
        return _canonical_clause(clause, context)
    if word.casefold() == ALL and not find_name(word, context.workers):
        return ALL
    for prefix, names in ((TEAM, context.teams), (HOST, context.hosts)):
        if word[: len(prefix)].casefold() == prefix:
            name = word[len(prefix) :]
            return prefix + (find_name(name, names) or name)
    return find_worker(word, context) or word


def find_name(word: str, names: Iterable[str]) -> str | None:
    """The name that a word is: exactly, else the only one that differs in case alone."""
    known = tuple(names)
    if word in known:
        return word
    folded = word.casefold()
    found = [name for name in known if name.casefold() == folded]
    return found[0] if len(found) == 1 else None


def find_worker(word: str, context: GrammarContext) -> str | None:
    """The only worker that a word names: by its id, by its address, or by a name that one host alone has."""
    if word in context.workers:
        return word
    found = workers_named(word, context)
    return found[0] if len(found) == 1 else None


def workers_named(word: str, context: GrammarContext) -> tuple[str, ...]:
    """All workers that a word names, in any case: those of this name on all hosts, or those with this address."""
    if word in context.workers:
        return (word,)
    folded = word.casefold()
    if SEPARATOR in word:
        return tuple(
            each for address, each in by_address(context.workers, context.hosts).items() if address.casefold() == folded
        )
    return tuple(each for each in context.workers if name_of(each).casefold() == folded)


def is_short_name(word: str, context: GrammarContext) -> bool:
    """True for the name of workers of other hosts alone, without their host."""
    named = workers_named(word, context) if SEPARATOR not in word else ()
    return bool(named) and all(map(is_address, named))


def resolve(word: str, context: GrammarContext) -> tuple[str, ...] | None:
    """The workers that a word means in any case, in their configured order; None for a word that isn't a target.

    A target that means no worker is a `GrammarError`, because its writer meant somebody. A name that workers of
    several hosts have is a `NearMiss`.
    """
    clause = _clause(word, context)
    if clause:
        return _matching(clause, context)
    target = canonical_target(word, context)
    if target in context.workers:
        return (target,)
    if target == ALL:
        return _somebody(context.workers, NO_WORKERS)
    if target.startswith(TEAM):
        return _team(target.removeprefix(TEAM), context)
    if target.startswith(HOST):
        return _host(target.removeprefix(HOST), context)
    if PATTERN.intersection(target):
        return _pattern(target, context)
    if listed := _list(target, context):
        return listed
    _ask_which_host(target, context)
    _ask_which_worker(target, context)
    return None


def _list(word: str, context: GrammarContext) -> tuple[str, ...]:
    """The workers of a list such as `w1,w2`, which a rolling undo has for its target; empty for any other word."""
    if SEPARATOR_OF_LIST not in word:
        return ()
    found = {find_worker(name, context) for name in word.split(SEPARATOR_OF_LIST)}
    return () if None in found else tuple(worker for worker in context.workers if worker in found)


def ask_if_nearly(word: str, context: GrammarContext) -> None:
    """`NearMiss` for a word that is almost a target: acting on a guess may act on the wrong worker."""
    if names := close_names(word, _names(word, context)):
        choice = " or ".join(excerpt(name) for name in names)
        closest = f"the closest is {choice}" if len(names) == 1 else f"the closest are {choice}"
        raise NearMiss(
            f"There's no worker {excerpt(word)}; {closest}. If it's meant as text, put it in double quotes.",
            instead=names[0],
        )


def unknown_target(word: str, context: GrammarContext) -> GrammarError:
    """The error for a word in the place of a target that doesn't name one."""
    known = _listed(context.workers) or "none are configured"
    of_host = ", host:NAME" if len(context.hosts) > 1 else ""
    groups = (*(TEAM + name for name in context.teams), *(HOST + name for name in context.hosts))
    return GrammarError(
        f"{excerpt(word)} isn't a target. Use a worker ({known}), team:NAME{of_host}, a pattern such as a*, or all.",
        instead=nearest(word, (*_names(word, context), *groups, ALL)),
    )


def _names(word: str, context: GrammarContext) -> tuple[str, ...]:
    """The names that a word may be close to, each once: addresses that differ in the host or in the worker, or ids
    without their hosts."""
    if SEPARATOR in word:
        host, _, name = word.casefold().partition(SEPARATOR)
        ends = f"{host}{SEPARATOR}", f"{SEPARATOR}{name}"
        known = ((each, each.casefold()) for each in by_address(context.workers, context.hosts))
        return tuple(each for each, folded in known if folded.startswith(ends[0]) or folded.endswith(ends[1]))
    return tuple(dict.fromkeys(map(name_of, context.workers)))


def _ask_which_host(word: str, context: GrammarContext) -> None:
    names = workers_named(word, context)
    if len(names) < 2 or not any(map(is_address, names)):  # ids of one host differ in more than case
        return
    everywhere = f"*{SEPARATOR}{word}"
    raise NearMiss(
        f"Several hosts have a worker {excerpt(word)}: {_listed(names)}. Name one, or use {everywhere} for all."
    )


def _ask_which_worker(word: str, context: GrammarContext) -> None:
    typed, separator, name = word.partition(SEPARATOR)
    host = find_name(typed, context.hosts)
    if not separator or host is None or len(context.hosts) == 1:
        return
    there = {name_of(each): each for each in context.hosts[host]}
    known = f"Its workers: {_listed(there)}." if there else "It has no workers."
    found = nearest(name, there)
    raise GrammarError(
        f"Host {excerpt(host)} has no worker {excerpt(name)}. {known}", instead=there[found] if found else None
    )


def _listed(names: Iterable[str]) -> str:
    known = tuple(names)
    more = len(known) - NAMED
    return ", ".join(known[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _team(name: str, context: GrammarContext) -> tuple[str, ...]:
    if name not in context.teams:
        known = ", ".join(list(context.teams)[:NAMED])
        teams = f"Teams: {known}." if known else "No teams are configured."
        found = nearest(name, context.teams)
        raise GrammarError(f"There's no team {excerpt(name)}. {teams}", instead=found and TEAM + found)
    members = frozenset(context.teams[name])
    chosen = tuple(worker for worker in context.workers if worker in members)
    return _somebody(chosen, f"Team {excerpt(name)} has no workers{context.here}.")


def _host(name: str, context: GrammarContext) -> tuple[str, ...]:
    if name not in context.hosts:
        hosts = f"Hosts: {_listed(context.hosts)}." if context.hosts else "No hosts are known."
        found = nearest(name, context.hosts)
        raise GrammarError(f"There's no host {excerpt(name)}. {hosts}", instead=found and HOST + found)
    there = frozenset(context.hosts[name])
    chosen = tuple(worker for worker in context.workers if worker in there)
    return _somebody(chosen, f"Host {excerpt(name)} has no workers.")


def _pattern(pattern: str, context: GrammarContext) -> tuple[str, ...]:
    if len(pattern) > MAX_PATTERN:
        raise GrammarError(f"A pattern can have up to {MAX_PATTERN} characters; this one has {len(pattern)}.")
    folded = pattern.casefold()
    known = (
        by_address(context.workers, context.hosts) if SEPARATOR in pattern else {each: each for each in context.workers}
    )
    short = name_of if SEPARATOR not in pattern else str
    chosen = tuple(each for name, each in known.items() if fnmatchcase(short(name).casefold(), folded))
    if chosen:
        return chosen
    raise GrammarError(f"No worker matches {excerpt(pattern)}. If it's meant as text, put it in double quotes.")


def _somebody(workers: tuple[str, ...], otherwise: str) -> tuple[str, ...]:
    if not workers:
        raise GrammarError(otherwise)
    return workers


def _clause(word: str, context: GrammarContext) -> Clause | None:
    """The target with conditions that a word is; a worker's id never is one."""
    return None if word in context.workers else split_clause(word)


def _canonical_clause(clause: Clause, context: GrammarContext) -> str:
    base = canonical_target(clause.base, context) if clause.base else ""
    every = base == ALL and ALL not in context.workers
    return Clause("" if every else base, tuple(map(str, _conditions(clause)))).text


def _matching(clause: Clause, context: GrammarContext) -> tuple[str, ...]:
    conditions = _conditions(clause)
    workers = _base(clause, context)
    found = context.meets(workers, conditions)
    group = f" of {excerpt(canonical_target(clause.base, context))}" if clause.base else ""
    return _somebody(found, f"No worker{group} matches {' and '.join(map(str, conditions))}.")


def _base(clause: Clause, context: GrammarContext) -> tuple[str, ...]:
    """The workers that are checked against the conditions."""
    base = clause.base or ALL
    try:
        if split_clause(base) and base not in context.workers:
            raise GrammarError(f"“{WHERE}” appears twice. Put a comma between conditions.")
        workers = resolve(base, context)
        if workers is None:
            raise unknown_target(base, context)
    except GrammarError as error:
        error.instead = None  # a suggestion must not lose the conditions
        raise
    return workers


def _conditions(clause: Clause) -> tuple[TargetCondition, ...]:
    """The conditions, each once; `GrammarError` for one that isn't valid."""
    if not clause.conditions:
        raise GrammarError(NO_CONDITION)
    return tuple(dict.fromkeys(map(_condition, clause.conditions)))


NO_CONDITION = (
    f"Add a condition after “{WHERE}”, such as {STATE}=stale or {VERSION}=3f2a. "
    "If it's meant as text, put it in double quotes."
)


def _condition(text: str) -> TargetCondition:
    typed, _, said = text.partition("=")
    key, value = typed.casefold(), in_one_word(said)
    if key not in VALUES:
        known = f"{', '.join(f'{each}=' for each in list(VALUES)[:-1])} or {list(VALUES)[-1]}="
        raise GrammarError(f"There's no condition {excerpt(text)}. Use {known}.")
    if key == VERSION and not COMMIT.fullmatch(value):
        raise GrammarError(
            f"{excerpt(said)} isn't a version. Use at least {FEWEST_DIGITS} digits of a commit, such as {key}=3f2a."
        )
    if key != VERSION and value not in VALUES[key]:
        raise GrammarError(f"There's no {key} {excerpt(said)}. Use {', '.join(VALUES[key][:-1])} or {VALUES[key][-1]}.")
    return TargetCondition(key, value)
