"""`make bench` measures topics and writes docs/reference/benchmarks.md; `make bench-check` compares them with it."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Sequence

from tests.benchmarks import report
from tests.benchmarks.rows import MARGIN, Row, regressions

QUICK = ("status", "pass")
"""The topics of a check that names none: quick, and each has a floor or a peer."""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare the ratios with the committed ones, write nothing"
    )
    parser.add_argument("names", nargs="*", metavar="TOPIC", help=", ".join(report.TOPICS))
    options = parser.parse_args(words)
    if unknown := set(options.names) - set(report.TOPICS):
        parser.error(f"no such topic: {', '.join(sorted(unknown))}")
    if options.check:
        return _check(options.names or QUICK)
    failed = [name for name in options.names or report.TOPICS if not _recorded(name)]
    if failed:
        print(f"Not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _recorded(name: str) -> bool:
    """Measure and save one topic: all together take long, and the failure of one doesn't lose the others."""
    print(f"Measuring {name} …", flush=True)
    begun = time.monotonic()
    try:
        rows = _measured(name)
    except Exception:  # noqa: BLE001 (whatever a benchmark runs into)
        traceback.print_exc()
        return False
    report.save({name: report.run_of(report.TOPICS[name], rows, time.monotonic() - begun)})
    report.PAGE.write_text(report.page(), encoding="utf-8", newline="\n")
    return True


def _check(names: Sequence[str]) -> int:
    committed, worse = report.load(), []
    for name in names:
        print(f"Measuring {name} …", flush=True)
        worse += [f"{name}: {line}" for line in regressions(committed[name].rows, _measured(name))]
    print("\n".join(worse) or f"No ratio is more than {MARGIN} times the committed one.")
    return 1 if worse else 0


def _measured(name: str) -> Sequence[Row]:
    rows: Sequence[Row] = importlib.import_module(f"tests.benchmarks.bench_{name}").measure()
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
