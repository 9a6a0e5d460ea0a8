"""A Python program with this folder on its PYTHONPATH uses the portable process backend from its start."""

from tests.support.processes.process_backends import use_portable

use_portable()
