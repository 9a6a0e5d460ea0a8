"""The tests: unit, integration, acceptance, faults, and benchmarks beside them."""
