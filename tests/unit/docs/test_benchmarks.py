"""The rows of benchmarks, their file and page, and the comparison with the committed ratios."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks import report
from tests.benchmarks.report import Run
from tests.benchmarks.rows import FLOOR, MARGIN, OURS, Row, ratio, regressions, row_of, rows_of
from tests.support.homes import ROOT

BASE = Row("python", FLOOR, "ms", 10.0)
STATUS = Row("status", OURS, "ms", 40.0, 44.0, FLOOR)
PEER = Row("status", "peer", "ms", 80.0, None, FLOOR)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "benchmarks.json"
    path.write_text("{}")
    monkeypatch.setattr(report, "RESULTS", path)
    monkeypatch.setattr(report, "PAGE", path.with_suffix(".md"))
    return path


def test_a_row_has_the_median_and_the_95th_percentile_of_its_samples() -> None:
    row = row_of("status", OURS, list(range(1, 101)), FLOOR)
    assert (row.median, row.p95, row.unit) == (50.5, 95, "ms")
    assert row_of("boot", OURS, [7.0]).p95 is None


def test_times_by_name_are_ours_except_the_floor_and_the_named_others() -> None:
    rows = rows_of({"python": [10.0], "git": [5.0], "status": [40.0]}, "python", {"git": "git"})
    assert [(row.subject, ratio(row, rows)) for row in rows] == [(FLOOR, None), ("git", 0.5), (OURS, 4.0)]


def test_a_row_is_compared_with_the_base_of_the_same_thing_first() -> None:
    same = Row("status", FLOOR, "ms", 20.0)
    assert ratio(STATUS, [BASE, STATUS]) == 4.0
    assert ratio(STATUS, [BASE, same, STATUS]) == 2.0


@pytest.mark.parametrize("rows", [[STATUS], [STATUS, replace(BASE, median=0.0)], [STATUS, replace(BASE, median=None)]])
def test_without_a_base_there_is_no_ratio(rows: list[Row]) -> None:
    assert ratio(STATUS, rows) is None


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


def test_a_partial_run_replaces_only_its_topics(results: Path) -> None:
    old, new = Run("2026-11-01", "m", 3, {"git": "2.4"}, [BASE, STATUS]), Run("2026-11-02", "m", 4, {}, [BASE])
    report.save({"pass": old, "status": old})
    report.save({"status": new})
    assert report.load() == {"status": new, "pass": old}


def test_the_page_shows_each_row_with_its_ratio(results: Path) -> None:
    matrix = [Row("SIGSTOP", OURS, words="frozen"), Row("SIGSTOP", "peer", words="RUNNING")]
    report.save({"status": Run("d", "m", 9, {}, [BASE, STATUS]), "faults": Run("d", "m", 9, {}, matrix)})
    lines = report.page().splitlines()
    assert "| status | ours | 40.0 ms | 44.0 ms | 4.0 | floor |" in lines
    assert lines[-3:] == ["| what | ours | peer |", "| --- | --- | --- |", "| SIGSTOP | frozen | RUNNING |"]


@pytest.mark.parametrize(("milliseconds", "code"), [(40.0, 0), (400.0, 1)])
def test_the_check_names_the_row_and_writes_nothing(
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    milliseconds: float,
    code: int,
) -> None:
    report.save({"status": Run("d", "m", 9, {}, [BASE, STATUS])})
    before = results.read_text()
    monkeypatch.setattr(benchmarks, "_measured", lambda _: [BASE, replace(STATUS, median=milliseconds)])
    assert benchmarks.main(["--check", "status"]) == code
    assert ("status: status (ours): 40 times floor, was 4" in capsys.readouterr().out) is bool(code)
    assert results.read_text() == before
    assert not results.with_suffix(".md").exists()


def test_a_run_writes_the_figures_and_the_page(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "_measured", lambda _: [BASE, STATUS])
    assert benchmarks.main(["status"]) == 0
    assert report.load()["status"].rows == [BASE, STATUS]
    assert results.with_suffix(".md").read_text() == report.page()


def test_a_topic_that_fails_does_not_lose_the_others(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmarks, "_measured", lambda name: {"scan": [BASE, STATUS]}[name])
    assert benchmarks.main(["status", "scan"]) == 1
    assert set(report.load()) == {"scan"}
    assert "Not measured: status" in capsys.readouterr().err


def test_every_benchmark_is_a_topic_of_the_page() -> None:
    modules = {path.stem.removeprefix("bench_") for path in (ROOT / "tests" / "benchmarks").glob("bench_*.py")}
    assert modules == set(report.TOPICS)
    assert set(report.load()) <= modules
