"""The list of generated files, each with the function that generates its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.benchmarks import report
from tests.reference import (
    command_line,
    commands,
    configuration,
    events,
    example,
    files,
    library,
    limits,
    metrics,
    tables,
)

ROOT = Path(__file__).parents[2]

PAGES: Mapping[str, Callable[[], str]] = {
    "config.example.yaml": example.page,
    "docs/reference/benchmarks.md": report.page,
    "docs/reference/command-line.md": command_line.page,
    "docs/reference/commands.md": commands.page,
    "docs/reference/configuration.md": configuration.page,
    "docs/reference/events.md": events.page,
    "docs/reference/files.md": files.page,
    "docs/reference/library.md": library.page,
    "docs/reference/limits.md": limits.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/tables.md": tables.page,
}


def outdated() -> Iterator[str]:
    """The files that differ from what the code says, as paths in the repository."""
    for path, generate in PAGES.items():
        file = ROOT / path
        if not file.exists() or file.read_text(encoding="utf-8") != generate():
            yield path


def write_changed() -> list[str]:
    """Write the outdated files; returns their paths."""
    changed = list(outdated())
    for path in changed:
        (ROOT / path).write_text(PAGES[path](), encoding="utf-8", newline="\n")
    return changed
