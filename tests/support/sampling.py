"""The sample of the long tests that `make test` runs; `make faults` runs all of them.

Four kinds of tests are long only because of their number: cases of a matrix (`@pytest.mark.sampled(2)`), tests that
vary one promise throughout a file (`pytestmark = pytest.mark.sampled(of_file=4)`), rounds of a loop (`rounds`), and
examples of a property (`examples`). The seed decides which cases, tests and examples a sample has.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterable

import pytest

SEED_VARIABLE = "SUPERVISOR_TESTS_SEED"
DEFAULT_SEED = 1

EXAMPLES_SHARE = 5
FEWEST_EXAMPLES = 4

_in_full = False


def seed() -> int:
    """The seed of this run."""
    return int(os.environ.get(SEED_VARIABLE) or DEFAULT_SEED)


def use(*, full: bool) -> None:
    """Decide for this process, before any test is collected."""
    global _in_full  # noqa: PLW0603 (one for each process that runs tests)
    _in_full = full


def in_full() -> bool:
    """True when every case, round and example runs."""
    return _in_full


def rounds(full: int, *, sample: int) -> int:
    """The number of rounds of a loop. The test carries `@pytest.mark.sampled`, so that `make faults` runs it."""
    return full if _in_full else sample


def examples(full: int) -> int:
    """The number of examples of a property: a fifth of them in a sample."""
    return full if _in_full else min(full, max(FEWEST_EXAMPLES, full // EXAMPLES_SHARE))


def left_out(items: Iterable[pytest.Item], named: Iterable[str]) -> set[pytest.Item]:
    """The cases that aren't in the sample.

    Consecutive seeds take consecutive cases of a shuffled row: with `n` of `m` cases, `m / n` seeds run all of them. A
    case that is named on the command line runs in any case.
    """
    if _in_full:
        return set()
    out: set[pytest.Item] = set()
    for of_file in (False, True):
        cases: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
        for item in (item for item in items if item not in out):
            for marker in item.iter_markers("sampled"):
                if of_file and "of_file" in marker.kwargs:
                    cases[item.nodeid.partition("::")[0], marker.kwargs["of_file"]].append(item)
                elif marker.args and not of_file:
                    cases[item.nodeid.partition("[")[0], marker.args[0]].append(item)
        for (name, size), all_of_them in cases.items():
            row = sorted(all_of_them, key=lambda item: item.nodeid)
            random.Random(name).shuffle(row)
            first = seed() * size % len(row)
            out.update((row[first:] + row[:first])[size:])
    wanted = tuple(named)
    return {item for item in out if not item.nodeid.endswith(wanted)} if wanted else out
