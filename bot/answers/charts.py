"""Charts of `history`: conditions, heartbeat age and commands over time.

matplotlib comes with the extra `charts`, and only when the first picture is asked for. Each condition has a colour that
colour-blind people tell apart, a hatch, and its word in the legend, so nothing hangs on colour alone. The background is
the picture's own: it reads in Slack's light and dark look alike.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from supervisor_core.common.times import format_span
from supervisor_core.diagnosis.history import HeartbeatSample, History, Mark, MarkKind, cropped, percent
from supervisor_core.workers.conditions.rules import Condition, Severity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, DPI = 5.2, 220
"""Size in inches and dots per inch, so that the letters are readable on a phone and in Slack's preview."""

SMALL, NORMAL, LARGE = 9.5, 11, 12.5  # points
PAPER, INK, FAINT = "#fbfbf9", "#1d1c1d", "#c9c9c4"
FONT = "DejaVu Sans"
"""Part of matplotlib, so a chart is the same on every host."""

STEPS = tuple(timedelta(minutes=each) for each in (2, 5, 10, 15, 30, 60, 120, 240, 480, 1440))
MOST_TICKS = 7
"""Of the time axis, at the first of these steps that has no more."""

EDGE = 0.03
"""Of the width: a tick that is nearer to the right end has no room for its word."""

APART = 0.024
"""Of the width: numbers of marks that are closer than this share a place."""

POINTS = 360
"""Of a line: of all samples between two of them the oldest counts."""

GAP_SECONDS = 900.0
"""The line is broken where there is no sample for longer."""

NARROWEST = 0.0025
"""Of the width: what is shorter is drawn as wide as this, or nobody would see it."""

HATCHED = 0.008
"""Of the width: what is narrower has no room for a hatch."""

_LOOKS = {
    "well": ("#009e73", "", INK),
    "warning": ("#f0b428", "//", INK),
    "critical": ("#d55e00", "xx", INK),
    "down": ("#7a1f4b", "\\\\", PAPER),
    "paused": ("#8fb8de", "..", INK),
    "unknown": ("#ffffff", "", INK),
}
_LINE = "#0b5394"
_SILENT = (Condition.STALE, Condition.MISSING, Condition.FROZEN, Condition.STUCK)

_lock = threading.Lock()
"""matplotlib isn't thread-safe."""


class NoChartsError(Exception):
    """matplotlib isn't installed."""


def draw(histories: Sequence[History], zone: tzinfo, zone_name: str) -> bytes:
    """A PNG of these workers over one time span; `NoChartsError` without matplotlib. It blocks."""
    with _lock:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise NoChartsError(str(error)) from error
        import matplotlib as mpl

        with mpl.rc_context({"font.family": FONT, "font.size": NORMAL, "hatch.linewidth": 0.7, "text.color": INK}):
            histories = cropped(histories)
            one = len(histories) == 1
            figure = Figure(figsize=(WIDTH, _height(histories)), dpi=DPI, facecolor=PAPER)
            FigureCanvasAgg(figure)
            axes = _one(figure, histories[0]) if one else _several(figure, histories)
            _time_axis(axes[-1], histories[0], zone, zone_name)
            _legend(figure, histories)
            kept = io.BytesIO()
            figure.savefig(kept, format="png", dpi=DPI, facecolor=PAPER, metadata={"Software": None})
            return kept.getvalue()


def _height(histories: Sequence[History]) -> float:
    if len(histories) == 1:
        return 4.0 if histories[0].limit_seconds else 2.5
    return 1.75 + 0.36 * len(histories)


def _one(figure: Figure, history: History) -> list[Axes]:
    """Draw one worker: conditions above, heartbeat age below, and marks through both."""
    beats = history.limit_seconds > 0
    height = _height([history])
    top, bottom = 1 - 0.46 / height, 0.98 / height
    grid = figure.add_gridspec(
        2 if beats else 1,
        1,
        height_ratios=[1, 3] if beats else [1],
        left=0.115,
        right=0.975,
        top=top,
        bottom=bottom,
        hspace=0.14,
    )
    _title(figure, f"{history.worker_id}, last {history.length}: {_up(history)}", height)
    state = figure.add_subplot(grid[0])
    _bar(state, history, 0.5, 0.9)
    state.set_ylim(0, 1.55)
    _bare(state)
    axes = [state]
    if beats:
        ages = figure.add_subplot(grid[1], sharex=state)
        state.tick_params(labelbottom=False, bottom=False)
        _ages(ages, history)
        axes.append(ages)
    for mark in history.marks:
        _mark(axes, history, mark)
    for x, words in _numbers(history):
        state.text(x, 1.3, words, ha="center", va="bottom", size=SMALL, weight="bold")
    return axes


def _several(figure: Figure, histories: Sequence[History]) -> list[Axes]:
    """Draw a row for each worker."""
    height = _height(histories)
    long = max(len(each.worker_id) for each in histories)
    left = min(0.05 + 0.0155 * min(long, 20), 0.36)
    grid = figure.add_gridspec(1, 1, left=left, right=0.87, top=1 - 0.52 / height, bottom=0.98 / height)
    _title(figure, f"{len(histories)} workers, last {histories[0].length}", height)
    axes = figure.add_subplot(grid[0])
    for row, history in enumerate(histories):
        y = len(histories) - row - 0.5
        _bar(axes, history, y, 0.62)
        for mark in history.marks:
            _sign(axes, mark, _place(history, mark.at), y)
        axes.text(1.012, y, percent(history.uptime), transform=axes.get_yaxis_transform(), va="center", size=SMALL)
    axes.set_facecolor(PAPER)
    axes.set_ylim(0, len(histories))
    axes.set_yticks([len(histories) - row - 0.5 for row in range(len(histories))])
    axes.set_yticklabels([_short(each.worker_id) for each in histories], size=SMALL)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return [axes]


def _title(figure: Figure, words: str, height: float) -> None:
    figure.text(0.02, 1 - 0.12 / height, words, size=LARGE, weight="bold", va="top")


def _bar(axes: Axes, history: History, y: float, tall: float) -> None:
    """Draw the conditions over time, the worst last, so that it's never hidden. Equal ones are drawn at once, because
    there may be thousands."""
    whole = (history.until - history.since).total_seconds()
    alike: dict[tuple[Condition, bool], list[tuple[float, float]]] = {}
    for stretch in sorted(history.stretches, key=lambda each: _weight(each.condition)):
        left = (stretch.since - history.since).total_seconds() / whole
        wide = max(stretch.length.total_seconds() / whole, NARROWEST)
        alike.setdefault((stretch.condition, wide > HATCHED), []).append((left, wide))
    for (condition, hatched), places in alike.items():
        colour, hatch, edge = _LOOKS[_look(condition)]
        bars = places, (y - tall / 2, tall)
        # The outline has a pass of its own: with the hatch's colour, a narrow bar would be nothing but outline.
        axes.broken_barh(*bars, facecolor=colour, hatch=hatch if hatched else "", edgecolor=edge, linewidth=0)
        axes.broken_barh(*bars, facecolor="none", edgecolor=INK, linewidth=0.4)
    axes.set_xlim(0, 1)


def _ages(axes: Axes, history: History) -> None:
    """Draw the heartbeat age as a line, broken where there are no samples, and its limit."""
    whole, limit = (history.until - history.since).total_seconds(), history.limit_seconds
    xs: list[float] = []
    ys: list[float] = []
    before: float | None = None
    for sample in _oldest(history):
        x = (sample.at - history.since).total_seconds()
        if (
            before is not None
            and x - before > max(GAP_SECONDS, 2 * whole / POINTS)
            and not _stale_between(history, sample.at)
        ):
            xs.append((x + before) / 2 / whole)
            ys.append(float("nan"))
        xs.append(x / whole)
        ys.append(sample.seconds)
        before = x
    most = max([limit * 1.25, *(sample.seconds * 1.08 for sample in history.samples)])
    marker = "o" if 0 < len(history.samples) < 3 else None
    axes.plot(xs, ys, color=_LINE, linewidth=1.5, marker=marker, markersize=3, solid_joinstyle="round")
    axes.axhline(limit, color=INK, linewidth=1, linestyle=(0, (4, 2)))
    axes.text(0.006, limit, f"limit {format_span(limit)}", va="bottom", ha="left", size=SMALL)
    axes.set_ylim(0, most)
    ticks = _steps(most)
    axes.set_yticks(ticks)
    axes.set_yticklabels([format_span(tick) if tick else "0" for tick in ticks], size=SMALL)
    axes.set_title("Heartbeat age", size=SMALL, loc="left", pad=3, x=0.0)
    if not history.samples:
        axes.text(0.5, 0.4, "not measured", transform=axes.transAxes, ha="center", size=NORMAL)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_facecolor(PAPER)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _oldest(history: History) -> list[HeartbeatSample]:
    """Reduce the samples to those that fit beside each other."""
    wide = (history.until - history.since) / POINTS
    found: dict[int, HeartbeatSample] = {}
    for sample in history.samples:
        place = (sample.at - history.since) // wide
        if place not in found or sample.seconds > found[place].seconds:
            found[place] = sample
    return list(found.values())


def _stale_between(history: History, at: datetime) -> bool:
    return any(each.condition in _SILENT and each.since < at <= each.until for each in history.stretches)


def _steps(most: float) -> list[float]:
    """At most four ticks, at usual time values."""
    for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800):
        if most / step <= 4:
            return [step * number for number in range(int(most // step) + 1)]
    return [0, most]


def _mark(axes: Sequence[Axes], history: History, mark: Mark) -> None:
    x = _place(history, mark.at)
    for each in axes:
        style = "-" if mark.sort is MarkKind.DEPLOY else (0, (2, 2))
        low, high = each.get_ylim()
        each.plot(
            [x, x], [low, min(high, 1.15) if each is axes[0] else high], color=INK, linewidth=0.9, linestyle=style
        )
    _sign(axes[0], mark, x, 1.17)


def _numbers(history: History) -> list[tuple[float, str]]:
    """The positions of numbers, joined where marks are close together."""
    groups: list[list[tuple[float, int]]] = []
    for number, mark in enumerate(history.numbered, 1):
        x = _place(history, mark.at)
        if groups and x - groups[-1][-1][0] < APART:
            groups[-1].append((x, number))
        else:
            groups.append([(x, number)])
    return [
        (
            sum(x for x, _ in group) / len(group),
            str(group[0][1]) if len(group) == 1 else f"{group[0][1]}-{group[-1][1]}",
        )
        for group in groups
    ]


def _sign(axes: Axes, mark: Mark, x: float, y: float) -> None:
    """A triangle for code changes, a dot for other commands."""
    sign, size = ("^", 6.0) if mark.sort is MarkKind.DEPLOY else ("o", 4.5)
    axes.plot([x], [y], sign, markersize=size, color=INK, markeredgecolor=PAPER, zorder=6)


def _place(history: History, at: datetime) -> float:
    return (at - history.since) / (history.until - history.since)


def _bare(axes: Axes) -> None:
    axes.set_yticks([])
    axes.set_facecolor(PAPER)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _time_axis(axes: Axes, history: History, zone: tzinfo, zone_name: str) -> None:
    """Label the time axis at whole hours or days in the reader's time zone."""
    whole = history.until - history.since
    ticks = _ticks(history, zone)
    axes.set_xticks([(tick - history.since) / whole for tick in ticks])
    days = whole > timedelta(days=2)
    said = [f"{tick.astimezone(zone):{'%a %d' if days else '%H:%M'}}" for tick in ticks]
    axes.set_xticklabels(
        [words if _place(history, tick) <= 1 - EDGE else "" for words, tick in zip(said, ticks, strict=True)],
        size=SMALL,
    )
    axes.tick_params(axis="x", length=3)
    first, last = history.since.astimezone(zone), history.until.astimezone(zone)
    axes.set_xlabel(f"{first:%d %b %H:%M} to {last:%d %b %H:%M}, times of {zone_name}", size=SMALL, labelpad=3)


def _ticks(history: History, zone: tzinfo) -> list[datetime]:
    whole = history.until - history.since
    step = next((each for each in STEPS if whole / each <= MOST_TICKS), STEPS[-1])
    at = history.since.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    found = []
    while at <= history.until:
        if at >= history.since:
            found.append(at)
        at += step  # by the clock on the wall, also where it was changed in between
    return found


def _legend(figure: Figure, histories: Sequence[History]) -> None:
    """Draw the legend of the conditions in the chart, worst first, and of the marks."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    there = {stretch.condition for history in histories for stretch in history.stretches}
    handles: list[Any] = []
    for look in dict.fromkeys(_look(each) for each in sorted(there, key=_weight)):
        colour, hatch, edge = _LOOKS[look]
        words = ", ".join(sorted(each.word for each in there if _look(each) == look))
        handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor=edge, linewidth=0.4, label=words))
    sorts = {mark.sort for history in histories for mark in history.marks}
    other = "other command" if MarkKind.DEPLOY in sorts else "command"
    for sort, sign, words in ((MarkKind.DEPLOY, "^", "code change"), (MarkKind.COMMAND, "o", other)):
        if sort in sorts:
            handles.append(Line2D([], [], linestyle="", marker=sign, color=INK, label=words))
    figure.legend(
        handles=handles,
        loc="lower center",
        ncol=len(handles) if len(handles) <= 4 else (len(handles) + 1) // 2,
        frameon=False,
        fontsize=SMALL,
        handlelength=1.6,
        columnspacing=1.2,
        borderaxespad=0.3,
    )


def _look(condition: Condition) -> str:
    if condition in (Condition.WELL, Condition.PAUSED, Condition.UNKNOWN):
        return str(condition.value)
    if condition in (Condition.DOWN, Condition.RESTART_LIMIT):
        return "down"
    return "warning" if condition.severity is Severity.WARNING else "critical"


def _weight(condition: Condition) -> int:
    return -1 if condition is Condition.UNKNOWN else condition.rank


def _up(history: History) -> str:
    return f"healthy {percent(history.uptime)}" if history.known else "no data"


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"
