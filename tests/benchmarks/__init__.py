"""Benchmarks: each `bench_NAME` measures one topic as rows, with a floor or a peer in the same run."""
