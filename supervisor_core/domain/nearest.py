"""How far two words are apart, and which known word somebody most likely meant."""

from __future__ import annotations

from collections.abc import Iterable

MAX_COMPARED = 80  # characters: no name here is longer, and hostile text is not worth the arithmetic
BEGUN = 3  # characters: from here on the beginning of a word is enough to suggest it
SHORT = 4  # characters: up to here one slip is already a quarter of the word


def edit_distance(one: str, other: str, limit: int) -> int:
    """Letters wrong, missing, extra or swapped with their neighbour; `limit + 1` stands for anything beyond.

    Only the band that can still end within the limit is computed, so a call costs length times limit.
    """
    beyond = limit + 1
    if abs(len(one) - len(other)) > limit:
        return beyond
    before: list[int] = []
    above = [min(column, beyond) for column in range(len(other) + 1)]
    for row in range(1, len(one) + 1):
        line = [beyond] * (len(other) + 1)
        if row <= limit:
            line[0] = row
        for column in range(max(1, row - limit), min(len(other), row + limit) + 1):
            same = one[row - 1] == other[column - 1]
            cost = min(above[column] + 1, line[column - 1] + 1, above[column - 1] + (not same))
            swapped = row > 1 and column > 1 and one[row - 2 : row] == other[column - 2 : column][::-1]
            if swapped:
                cost = min(cost, before[column - 2] + 1)
            line[column] = min(cost, beyond)
        before, above = above, line
    return above[-1]


def nearly(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that a word nearly is (another case, a letter or two off), the nearest first."""
    if len(word) > MAX_COMPARED:
        return ()
    folded = word.casefold()
    found = []
    for name in names:
        distance = _slips(folded, name.casefold())
        if distance is not None:
            found.append((distance, name))
    return tuple(name for _, name in sorted(found, key=lambda pair: pair[0]))


def _slips(word: str, name: str) -> int | None:
    if word == name:
        return 0
    shorter = min(len(word), len(name))
    if shorter < 2:
        return None
    limit = 1 if shorter <= SHORT else 2
    distance = edit_distance(word, name, limit)
    return distance if distance <= limit else None


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The one name to suggest for a word that is none of them; None where a suggestion would be a guess."""
    if not word or len(word) > MAX_COMPARED:
        return None
    folded = word.casefold()
    limit = max(1, min(3, len(folded) // 3))
    best: tuple[int, str] | None = None
    for name in names:
        other = name.casefold()
        begun = len(folded) >= BEGUN and other.startswith(folded)
        distance = 1 if begun and other != folded else edit_distance(folded, other, limit)
        if distance <= limit and (best is None or distance < best[0]):
            best = (distance, name)
    return best[1] if best else None
