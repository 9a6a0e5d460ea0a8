"""A debt file: the offenders that a rule tolerates today, so that no new one joins them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest


def check_debt(offenders: Mapping[str, int], path: Path, update: str) -> None:
    """Compare today's offenders and their counts with the file. With the variable `update` set, rewrite the file."""
    if os.environ.get(update):
        path.write_text("".join(f"{count} {name}\n" for name, count in sorted(offenders.items())))
        return
    known = Counter[str]()
    for line in path.read_text().splitlines():
        count, name = line.split(" ", 1)
        known[name] = int(count)
    today = Counter(offenders)
    troubles = [f"new offender: {name} ({today[name]}, was {known[name]})" for name in sorted(today - known)]
    troubles += [
        f"remove it from the list: {name} ({today[name]}, was {known[name]})" for name in sorted(known - today)
    ]
    if troubles:
        advice = f"Fix the new ones, then run this test with {update}=1 to rewrite {path.name}."
        pytest.fail("\n".join([*troubles, advice]), pytrace=False)
