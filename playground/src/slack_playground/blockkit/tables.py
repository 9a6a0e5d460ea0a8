"""The blocks that show data: tables, data tables and charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slack_playground.blockkit.kinds import IDENTIFIER, Kind, ListOf, Number, String, Uncounted
from slack_playground.blockkit.objects import COLUMN, RAW_NUMBER, RAW_TEXT
from slack_playground.blockkit.problems import MESSAGE, Report
from slack_playground.blockkit.richtext import RICH_TEXT
from slack_playground.blockkit.shapes import Needed, join, one_of, shape

DATA_TABLE_TEXT = 20_000

_CELL = one_of("a cell", RAW_TEXT, RAW_NUMBER, RICH_TEXT)


def _rows(value: Mapping[str, object]) -> list[list[object]]:
    rows = value.get("rows")
    return [list(row) for row in rows if isinstance(row, (list, tuple))] if isinstance(rows, (list, tuple)) else []


def _even_rows(value: Mapping[str, object], path: str, report: Report) -> None:
    rows = _rows(value)
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            where = f"{join(path, 'rows')}[{index}]"
            report.add(where, f"every row must have as many cells as the first ({len(rows[0])}), not {len(row)}")


def _settings_fit(value: Mapping[str, object], path: str, report: Report) -> None:
    settings, rows = value.get("column_settings"), _rows(value)
    if isinstance(settings, (list, tuple)) and rows and len(settings) != len(rows[0]):
        report.add(
            join(path, "column_settings"),
            f"expected one entry for each of the {len(rows[0])} columns, or null, not {len(settings)} entries",
        )


def texts_of(cell: object) -> Iterator[str]:
    """The texts of a cell, in whatever it is made of."""
    if isinstance(cell, Mapping):
        text = cell.get("text")
        if isinstance(text, str):
            yield text
        inner = cell.get("elements")
        if isinstance(inner, (list, tuple)):
            for each in inner:
                yield from texts_of(each)


def _not_too_much(value: Mapping[str, object], path: str, report: Report) -> None:
    total = sum(len(text) for row in _rows(value) for cell in row for text in texts_of(cell))
    if total > DATA_TABLE_TEXT:
        report.add(join(path, "rows"), f"at most {DATA_TABLE_TEXT} characters in all cells, not {total}")


def _header_column(value: Mapping[str, object], path: str, report: Report) -> None:
    index, rows = value.get("row_header_column_index"), _rows(value)
    if isinstance(index, int) and not isinstance(index, bool) and rows and index >= len(rows[0]):
        report.add(join(path, "row_header_column_index"), f"must be less than {len(rows[0])}, the number of columns")


TABLE = shape(
    "a table block",
    {
        "block_id": IDENTIFIER,
        "rows": Needed(Uncounted(ListOf(ListOf(_CELL, least=1, most=20), least=1, most=100))),
        "column_settings": ListOf(COLUMN, most=20, nulls=True),
    },
    tag="table",
    rules=(_even_rows, _settings_fit),
    places=frozenset({MESSAGE}),
    block=True,
)

DATA_TABLE = shape(
    "a data_table block",
    {
        "block_id": IDENTIFIER,
        "rows": Needed(Uncounted(ListOf(ListOf(_CELL, least=1, most=20), least=2, most=201))),
        "page_size": Number(least=1, most=100),
        "caption": String(least=1),
        "row_header_column_index": Number(least=0),
    },
    tag="data_table",
    rules=(_even_rows, _not_too_much, _header_column),
    block=True,
)

_LABEL = String(least=1, most=20)
_SEGMENT = shape("a segment", {"label": Needed(_LABEL), "value": Needed(Number(whole=False, above=0))})
_POINT = shape("a point", {"label": Needed(_LABEL), "value": Needed(Number(whole=False))})
_SERIES = shape("a series", {"name": Needed(_LABEL), "data": Needed(ListOf(_POINT, least=1, most=20))})
_AXES = shape(
    "the axes",
    {
        "categories": Needed(ListOf(_LABEL, least=1, most=20)),
        "x_label": String(most=50),
        "y_label": String(most=50),
    },
)
_BY_AXES: dict[str, Kind | Needed] = {
    "series": Needed(ListOf(_SERIES, least=1, most=12)),
    "axis_config": Needed(_AXES),
}
_CHART = one_of(
    "a chart",
    shape("a pie chart", {"segments": Needed(ListOf(_SEGMENT, least=1, most=12))}, tag="pie"),
    *(shape(f"a chart of type {kind}", _BY_AXES, tag=kind) for kind in ("bar", "line", "area")),
)

DATA_VISUALIZATION = shape(
    "a data_visualization block",
    {"block_id": IDENTIFIER, "title": Needed(String(least=1, most=50)), "chart": Needed(_CHART)},
    tag="data_visualization",
    block=True,
)
