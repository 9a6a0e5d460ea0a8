"""`make bench`: measures everything that docs/figures.md tells, and prints it."""

from __future__ import annotations

import sys

from tests.benchmarks import (
    bench_ack,
    bench_alerts,
    bench_audit,
    bench_death,
    bench_faults,
    bench_forward,
    bench_home,
    bench_junk,
    bench_looks,
    bench_many,
    bench_pass,
    bench_preview,
    bench_road,
    bench_scan,
    bench_slow,
    bench_status,
)

ALL = (
    bench_status,
    bench_pass,
    bench_road,
    bench_scan,
    bench_ack,
    bench_audit,
    bench_forward,
    bench_preview,
    bench_faults,
    bench_death,
    bench_alerts,
    bench_many,
    bench_home,
    bench_junk,
    bench_looks,
    bench_slow,
)

if __name__ == "__main__":
    chosen = sys.argv[1:]
    for module in ALL:
        if not chosen or module.__name__.rpartition("_")[2] in chosen:
            print(f"{(module.__doc__ or '').splitlines()[0]}\n")
            print(module.measure(), end="\n\n")
