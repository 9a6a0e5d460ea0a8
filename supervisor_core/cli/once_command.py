"""`supervisor once`: a single pass for one worker, as a task scheduler runs it."""

from __future__ import annotations

import argparse

from supervisor_core.runtime.supervisor import Supervisor


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--worker-id", metavar="ID", help="else the only worker, else supervisor.default_worker")
    parser.add_argument("--heal", action="store_true", help="start the worker if it should run and does not")


def run(options: argparse.Namespace) -> int:
    """One pass; 0 where all went well."""
    supervisor = Supervisor(options.config, options.worker_id)
    code = supervisor.run_once(heal=options.heal)
    if supervisor.held_by:
        print(supervisor.held_by)
    return code
