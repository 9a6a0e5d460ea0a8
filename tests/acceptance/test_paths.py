"""Two paths through a real daemon: the docs show them as they are, and they don't grow."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import pytest

from tests.paths import TracedPath, section, trace_paths
from tests.support.homes import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
BEGIN, END = "<!-- paths: begin -->\n", "<!-- paths: end -->\n"
COUNTS = re.compile(r"(\d+) functions in (\d+) modules")
SPARE_FUNCTIONS, SPARE_MODULES = 12, 3
"""The difference between two runs of the same code: a slow preview is announced first, and edits of a card merge."""

UPDATE = "UPDATE_PATHS"


@pytest.fixture(scope="module")
def paths() -> Sequence[TracedPath]:
    """One run, and a second one if a busy machine made the first longer."""
    taken = trace_paths()
    if os.environ.get(UPDATE):
        before, _, after = _parts()
        PAGE.write_text(f"{before}{BEGIN}{section(taken)}{END}{after}")
    return taken if _main_lines(taken) == _shown_main_lines() and not _grown(taken) else trace_paths()


def _main_lines(paths: Sequence[TracedPath]) -> str:
    return COUNTS.sub("", section(paths))


def _shown_main_lines() -> str:
    return COUNTS.sub("", _parts()[1])


def _grown(paths: Sequence[TracedPath]) -> list[str]:
    """The paths that are longer than the docs say."""
    found = []
    for path, bounds in zip(paths, COUNTS.findall(_parts()[1]), strict=True):
        (functions, modules), (most_functions, most_modules) = path.counts, map(int, bounds)
        if functions > most_functions + SPARE_FUNCTIONS or modules > most_modules + SPARE_MODULES:
            found.append(f"{path.name}: {functions} functions in {modules} modules: {path.functions}")
    return found


def _parts() -> tuple[str, str, str]:
    """The page before, within and after the generated section."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    shown, _, after = rest.partition(END)
    return before, shown, after


def test_the_docs_show_the_main_line_of_each_path(paths: Sequence[TracedPath]) -> None:
    assert _main_lines(paths) == _shown_main_lines(), f"run this test with {UPDATE}=1, and look"


def test_no_path_grows(paths: Sequence[TracedPath]) -> None:
    assert _grown(paths) == []
