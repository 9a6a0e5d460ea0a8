"""Reports: `diagnostics` and `verify-db`, written even when a part hangs."""
