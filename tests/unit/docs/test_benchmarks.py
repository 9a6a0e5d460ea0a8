"""The rows of benchmarks, their file and page, and the comparison with the committed ratios."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks import report
from tests.benchmarks.report import Run
from tests.benchmarks.rows import FLOOR, MARGIN, OURS, Row, regressions
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


def test_a_topic_that_fails_does_not_lose_the_others(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmarks, "_measured", lambda name: {"idle": [BASE, STATUS]}[name])
    assert benchmarks.main(["status", "idle"]) == 1
    assert set(report.load()) == {"idle"}
    assert "Not measured: status" in capsys.readouterr().err


def test_every_benchmark_is_a_topic_of_the_page() -> None:
    modules = {path.stem.removeprefix("bench_") for path in (ROOT / "tests" / "benchmarks").glob("bench_*.py")}
    assert modules == set(report.TOPICS)
    assert set(report.load()) <= modules
