"""`make size`: the lines of each folder beside its budget. With `--check`, fail if there are more in all than allowed.

The limit is `[tool.supervisor] lines` in pyproject.toml, and is only ever lowered.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = {
    "supervisor_core/config": 2900,
    "supervisor_core/storage": 2600,
    "supervisor_core/processes": 1400,
    "supervisor_core/workers": 3000,
    "supervisor_core/code": 2900,
    "supervisor_core/commands": 6000,
    "supervisor_core/alerts": 2400,
    "supervisor_core/diagnosis": 2300,
    "supervisor_core/fleet": 3000,
    "supervisor_core/daemon": 2600,
    "supervisor_core/web": 700,
    "supervisor_core/cli": 3400,
    "supervisor_core/host": 1400,
    "supervisor_core/common": 1000,
    "supervisor_core/library": 1000,
    "supervisor_core/plugins": 500,
    "supervisor_core/demo": 500,
    "bot": 8500,
}
"""Lines that each folder should need. A folder that isn't here has no budget: it moves into one that is."""


def count_lines() -> Counter[str]:
    """Lines of the product by folder; `bot` counts as one."""
    lines: Counter[str] = Counter()
    for package in ("supervisor_core", "bot"):
        for path in (ROOT / package).rglob("*.py"):
            if "migrations" not in path.parts:
                inner = path.relative_to(ROOT / package).parts[:-1]
                folder = package if package == "bot" or not inner else f"{package}/{inner[0]}"
                lines[folder] += len(path.read_text().splitlines())
    return lines


def main() -> int:
    """Print the table; returns the exit code."""
    limit = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["supervisor"]["lines"]
    lines = count_lines()
    if "--check" not in sys.argv:
        for folder, count in sorted(lines.items()):
            print(f"{folder:<34} {count:>7,} {BUDGET.get(folder, 0):>7,}")
    total = sum(lines.values())
    print(f"{total:,} lines in bot and supervisor_core; at most {limit:,} are allowed.")
    return int(total > limit)


if __name__ == "__main__":
    sys.exit(main())
