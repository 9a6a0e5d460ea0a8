"""Settings for all tests of the playground."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# The speed of an example depends on the machine, so it fails no test.
settings.register_profile("playground", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("playground")

# Tests in a script's background ignore SIGINT, and so would the programs that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
