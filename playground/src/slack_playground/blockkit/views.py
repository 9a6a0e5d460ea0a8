"""Checking a view: a modal, or a home tab."""

from __future__ import annotations

import json
from collections.abc import Mapping

from slack_playground.blockkit.blocks import check_blocks
from slack_playground.blockkit.kinds import Kind, String, name_of
from slack_playground.blockkit.objects import plain
from slack_playground.blockkit.problems import HOME, MODAL, Problem, Report
from slack_playground.blockkit.shapes import FLAG, Needed, Shape, join, shape

BLOCKS_OF_VIEW = 100
SIZE_OF_VIEW = 250_000  # bytes; Slack says 250 KB

_COMMON: dict[str, Kind | Needed] = {
    "private_metadata": String(most=3000),
    "callback_id": String(most=255),
    "external_id": String(most=255),
}


class _Blocks:
    """The blocks of a view: one at least, and a hundred at most."""

    def check(self, value: object, path: str, report: Report) -> None:
        check_blocks(value, path, report, BLOCKS_OF_VIEW, least=1)


def _submit_with_inputs(value: Mapping[str, object], path: str, report: Report) -> None:
    blocks = value.get("blocks")
    if "submit" in value or not isinstance(blocks, (list, tuple)):
        return
    if any(isinstance(block, Mapping) and block.get("type") == "input" for block in blocks):
        report.add(join(path, "submit"), "a modal with an input block needs a submit button")


_VIEWS: Mapping[str, Shape] = {
    MODAL: shape(
        "a modal",
        {
            **_COMMON,
            "title": Needed(plain(24)),
            "blocks": Needed(_Blocks()),
            "submit": plain(24),
            "close": plain(24),
            "clear_on_close": FLAG,
            "notify_on_close": FLAG,
        },
        tag=MODAL,
        rules=(_submit_with_inputs,),
    ),
    HOME: shape("a home tab", {**_COMMON, "blocks": Needed(_Blocks())}, tag=HOME),
}


def check_view(view: Mapping[str, object]) -> list[Problem]:
    """Problems for which Slack would refuse a modal or a home tab; empty where it may be shown."""
    if name_of(view) != "an object":
        return [Problem("", f"a view must be an object, not {name_of(view)}", "invalid_arguments")]
    kind = view.get("type")
    if not isinstance(kind, str) or kind not in _VIEWS:
        shown = repr(kind[:40]) if isinstance(kind, str) else name_of(kind)
        return [Problem("type", f"the type of a view must be 'modal' or 'home', not {shown}", "invalid_arguments")]
    report = Report(kind, "invalid_arguments")
    _VIEWS[kind].check(view, "", report)
    for place in report.focused[1:]:
        report.add(place, f"only one element of a view can have the focus; {report.focused[0]} already has it")
    size = _size(view)
    if size > SIZE_OF_VIEW:
        report.add("", f"a view can have at most {SIZE_OF_VIEW} bytes, not {size}", "view_too_large")
    return report.problems


def _size(view: Mapping[str, object]) -> int:
    try:
        text = json.dumps(view, default=str, skipkeys=True, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):  # nested beyond reason, or in itself
        return SIZE_OF_VIEW + 1
    return len(text.encode(errors="surrogatepass"))
