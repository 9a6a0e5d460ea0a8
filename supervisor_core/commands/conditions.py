"""Conditions of a target, such as `where state=stale`, and the facts about workers that decide them. Pure.

`supervisor status` imports it at once, so it imports nothing slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

WHERE = "where"
STATE, VERSION, HEALTH = "state", "version", "health"

Facts = Mapping[str, Mapping[str, str]]
"""The state, version and health of each worker. A fact that isn't known is missing or empty."""

FactSource = Facts | Callable[[], Facts]
"""The facts, or a function that finds them. It's called only for a target with conditions."""

HEALTHS = ("healthy", "stale", "degraded", "missing", "unknown", "frozen")
STATES = (
    *("running", "stopped", "paused", "down", "starting", "stopping", "stuck", "backing-off", "quarantined"),
    *(each for each in HEALTHS if each != "healthy"),
)
"""The states that `status` shows, each as one word."""

VALUES: Mapping[str, tuple[str, ...]] = {STATE: STATES, VERSION: (), HEALTH: HEALTHS}
"""The keys of conditions and their values. A version is the beginning of a commit."""

FEWEST_DIGITS = 4
COMMIT = re.compile(rf"[0-9a-f]{{{FEWEST_DIGITS},64}}")
_CONDITION = re.compile(r"[^\W\d_]+=.*")
_ONE_WORD = re.compile(rf"(?:(?P<base>.+?),)?{WHERE}:(?P<conditions>.*)", re.DOTALL | re.IGNORECASE)


class TargetCondition(NamedTuple):
    """One condition, such as `state=stale`."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"

    def matches(self, facts: Mapping[str, str]) -> bool:
        known = in_one_word(facts.get(self.key) or "")
        return known.startswith(self.value) if self.key == VERSION else known == self.value


class Clause(NamedTuple):
    """A target with conditions as it was typed. Without a base it means all workers."""

    base: str
    conditions: tuple[str, ...]

    @property
    def text(self) -> str:
        """The clause in one word: `team:archive,where:state=stale`."""
        base = f"{self.base}," if self.base else ""
        return f"{base}{WHERE}:{','.join(self.conditions)}"


def split_clause(word: str) -> Clause | None:
    """The base and the conditions of a target in one word; None for any other word."""
    found = _ONE_WORD.fullmatch(word)
    if found is None:
        return None
    return Clause(found["base"] or "", tuple(filter(None, found["conditions"].split(","))))


def read_clause(words: Sequence[str], *, has_base: bool) -> tuple[Clause, int] | None:
    """The target with conditions that words begin with, and the number of words; None without a `where`.

    It has no conditions where none follows. `has_base`: the first word is a target, even if it's “where”.
    """
    begin = next((place for place, word in enumerate(words[:2]) if _is_where(word) and (place or not has_base)), None)
    if begin is None:
        return None
    conditions: list[str] = []
    _, _, joined = words[begin].partition(":")
    conditions += filter(None, joined.split(","))
    end = begin + 1
    while end < len(words):
        more = end + (1 if conditions and words[end].casefold() == "and" else 0)
        if more == len(words) or not _CONDITION.fullmatch(words[more]):
            break
        conditions += filter(None, words[more].split(","))
        end = more + 1
    return Clause(words[0] if begin else "", tuple(conditions)), end


def reads_as_clause(text: str) -> bool:
    """True for a label or a reason that would be taken for conditions if it weren't in quotes."""
    words = text.split(" ")
    found = read_clause(words, has_base=False)
    if found is None or found[0].base:
        return False
    clause, length = found
    return bool(clause.conditions) or length == len(words) or is_condition_word(words[length])


def _is_where(word: str) -> bool:
    return word.partition(":")[0].casefold() == WHERE


def is_condition_word(word: str) -> bool:
    """True for a word after `where` that is a key, or a state or health without its key, rather than text."""
    said = in_one_word(word.rstrip(":="))
    return said in VALUES or said in VALUES[STATE] or said in VALUES[HEALTH]


def in_one_word(text: str) -> str:
    """A state as it's typed in a condition: `backing-off`."""
    return text.casefold().replace("_", "-").replace(" ", "-")


def state_word(worker: Mapping[str, Any]) -> str:
    """A worker's state and health in one word or two."""
    state, health = str(worker["state"]).replace("_", " "), str(worker["health"])
    if state == "running":
        return "running" if health in ("healthy", "unknown") and worker["fine"] else _ill(health)
    if state != "stopped":
        return state
    return "paused" if worker["paused"] else "stopped" if worker["fine"] else "down"


def _ill(health: str) -> str:
    return "degraded" if health in ("healthy", "unknown") else health


NOT_RUNNING = ("paused", "stopped", "quarantined", "starting", "stopping")
"""The states of workers that don't run, although nothing is wrong. Quarantined: by the configuration."""


def count_healthy(workers: Sequence[Mapping[str, Any]]) -> str:
    """The number of healthy workers. One that isn't to run, or is just starting, is neither healthy nor unhealthy."""
    number, states = len(workers), [state_word(worker) for worker in workers if worker["fine"]]
    inactive = [(word, states.count(word)) for word in NOT_RUNNING if word in states]
    healthy = len(states) - sum(count for _, count in inactive)
    everybody = {1: "1 worker", 2: "both workers"}.get(number, f"all {number} workers")
    for word, count in (("healthy", healthy), *inactive):
        if count == number:
            return f"{everybody} {word}"
    text = f"{healthy} of {number} worker{'s' if number != 1 else ''} healthy"
    return ", ".join([text, *(f"{count} {word}" for word, count in inactive)])


def facts_of(workers: Iterable[Mapping[str, Any]], versions: Mapping[str, str] | None = None) -> Facts:
    """The facts about the workers in a document of `status`, and their commits, where those are known."""
    commits = versions or {}
    return {
        str(each["id"]): {
            STATE: state_word(each),
            HEALTH: str(each["health"]),
            VERSION: commits.get(str(each["id"]), ""),
        }
        for each in workers
    }
