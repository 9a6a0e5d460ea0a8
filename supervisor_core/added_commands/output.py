"""The output of an added command, made safe and bounded: text as it is, and a table with aligned columns."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from supervisor_core.common.text import one_line, printable
from supervisor_core.host.logging.masking import Masking

MOST_BYTES = 1024 * 1024
"""The most bytes of an output, half from its beginning and half from its end."""

SHOWN = 2500
"""The characters of an output that its outcome keeps."""

SHOWN_LINES = 40
MOST_COLUMNS, LONGEST_CELL = 12, 60
LAST_LINES = 5
"""The lines of an error that its outcome keeps."""

LONGEST_LINE = 1000

_STYLES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""The colors and titles that programs write for terminals."""


@dataclass(frozen=True, slots=True)
class Printed:
    """An output without secrets and control characters."""

    whole: str
    shown: str
    rows: tuple[tuple[str, ...], ...] = ()
    """The shown rows of a table, its headings first."""

    @property
    def is_cut(self) -> bool:
        """True if only a part is shown."""
        return len(self.shown) < len(self.whole)

    def as_json(self) -> dict[str, Any]:
        rows = {"rows": [list(row) for row in self.rows]} if self.rows else {}
        return {"text": self.shown, "cut": self.is_cut, **rows}


def as_text(output: str | Sequence[Sequence[object]], masking: Masking) -> Printed:
    """The output as text; of a long one, the first lines are shown."""
    whole = _clean(_joined(output), masking).strip("\n").rstrip()
    return Printed(whole, _beginning(whole))


def as_table(output: str | Sequence[Sequence[object]], masking: Masking) -> Printed:
    if isinstance(output, str):
        lines = _clean(output, masking).splitlines()
        rows = [tuple(line.split("\t")) for line in lines if line.strip()]
    else:
        rows = [tuple(_clean(str(cell), masking) for cell in row) for row in output]
    cells = [tuple(one_line(cell.strip(), LONGEST_CELL) for cell in row[:MOST_COLUMNS]) for row in rows]
    whole = "\n".join(_aligned(cells))
    shown = _beginning(whole)
    return Printed(whole, shown, tuple(cells[: len(shown.splitlines())]))


def last_lines(output: str, masking: Masking) -> str:
    """The last lines of an error, which say the most. Secrets are masked before a line is cut."""
    lines = [line.rstrip() for line in _clean(output, masking).splitlines() if line.strip()]
    return "\n".join(line[:LONGEST_LINE] for line in lines[-LAST_LINES:])


def _joined(output: str | Sequence[Sequence[object]]) -> str:
    return output if isinstance(output, str) else "\n".join("\t".join(map(str, row)) for row in output)


def _clean(text: str, masking: Masking) -> str:
    return printable(masking.text(_STYLES.sub("", text.replace("\r\n", "\n"))))


def _beginning(text: str) -> str:
    """The first lines, as many as an outcome keeps."""
    lines = text.splitlines()[:SHOWN_LINES]
    while len(lines) > 1 and sum(len(line) + 1 for line in lines) > SHOWN:
        lines.pop()
    return "\n".join(lines)[:SHOWN]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    count = max(map(len, rows), default=0)
    widths = [max((_width(row[place]) for row in rows if place < len(row)), default=0) for place in range(count)]
    return [
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]


def _width(text: str) -> int:
    """The columns of a text in a fixed-width font."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) != 0 for character in text)
