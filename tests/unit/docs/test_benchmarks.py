"""The rows of benchmarks, their file and page, and the comparison with the committed ratios."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.benchmarks import report
from tests.benchmarks.rows import FLOOR, MARGIN, OURS, Row, regressions
from tests.support.homes import ROOT

BASE = Row("python", FLOOR, "ms", 10.0)
STATUS = Row("status", OURS, "ms", 40.0, 44.0, FLOOR)
PEER = Row("status", "peer", "ms", 80.0, None, FLOOR)


@pytest.mark.parametrize(
    ("measured", "lines"),
    [
        ([BASE, replace(STATUS, median=40.0 * MARGIN)], []),
        ([BASE, replace(STATUS, median=41.0 * MARGIN)], ["status (ours): 6.15 times floor, was 4"]),
        ([replace(BASE, median=30.0), replace(STATUS, median=120.0)], []),
        ([BASE], ["status (ours): no longer measured"]),
        ([BASE, STATUS, replace(PEER, median=800.0)], []),
        ([replace(BASE, median=0.0), STATUS], []),
    ],
    ids=["within the margin", "beyond it", "a slower machine", "missing", "a slower peer", "nothing to divide by"],
)
def test_only_our_ratios_beyond_the_margin_are_regressions(measured: list[Row], lines: list[str]) -> None:
    assert list(regressions([BASE, STATUS, PEER], measured)) == lines


def test_every_benchmark_is_a_topic_of_the_page() -> None:
    modules = {path.stem.removeprefix("bench_") for path in (ROOT / "tests" / "benchmarks").glob("bench_*.py")}
    assert modules == set(report.TOPICS)
    assert set(report.load()) <= modules
