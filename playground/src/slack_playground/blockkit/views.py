"""Checking a view: a modal, or a home tab."""

from __future__ import annotations

import json
from collections.abc import Mapping

from slack_playground.blockkit.blocks import BLOCK
from slack_playground.blockkit.kinds import FLAG, Kind, ListOf, Needed, Shape, String, join, name_of
from slack_playground.blockkit.objects import plain
from slack_playground.blockkit.problems import HOME, MODAL, Problem, Report

SIZE_OF_VIEW = 250_000  # bytes; Slack says 250 KB

_BLOCKS = Needed(ListOf(BLOCK, least=1, most=100))
_COMMON: dict[str, Kind | Needed] = {
    "private_metadata": String(most=3000),
    "callback_id": String(most=255),
    "external_id": String(most=255),
}


def _submit_with_inputs(value: Mapping[str, object], path: str, report: Report) -> None:
    blocks = value.get("blocks")
    if "submit" in value or not isinstance(blocks, (list, tuple)):
        return
    if any(isinstance(block, Mapping) and block.get("type") == "input" for block in blocks):
        report.add(join(path, "submit"), "a modal with an input block needs a submit button")


_VIEWS: Mapping[str, Shape] = {
    MODAL: Shape(
        "a modal",
        {
            **_COMMON,
            "title": Needed(plain(24)),
            "blocks": _BLOCKS,
            "submit": plain(24),
            "close": plain(24),
            "clear_on_close": FLAG,
            "notify_on_close": FLAG,
        },
        tag=MODAL,
        rules=(_submit_with_inputs,),
    ),
    HOME: Shape("a home tab", {**_COMMON, "blocks": _BLOCKS}, tag=HOME),
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
