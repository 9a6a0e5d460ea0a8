"""Tables on a terminal: as wide as their content, cut at the terminal's edge, with a word where nothing is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = "  "


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """The rows under their heads; with `width`, the last column is cut so that no line is longer."""
    clean = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *clean, strict=True)]
    lines = [
        GAP.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in (head, *clean)
    ]
    if width:
        lines = [line if len(line) <= width else line[: width - 1] + "…" for line in lines]
    return "\n".join(lines)


def _printable(cell: str) -> str:
    """What would move the cursor or colour the terminal is shown, not obeyed."""
    return cell if cell.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cell)
