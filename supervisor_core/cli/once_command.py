"""`supervisor once`: a single pass for one worker, as a task scheduler runs it."""

from __future__ import annotations

import argparse

from supervisor_core.config import load_supervisor_config
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.host import logging_as_configured, opened_ledger, prepare_state_dir
from supervisor_core.runtime.ownership import BusyError
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.single_pass import SinglePass


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--worker-id", metavar="ID", help="else the only worker, else supervisor.default_worker")
    parser.add_argument("--heal", action="store_true", help="start the worker if it should run and does not")


def run(options: argparse.Namespace) -> int:
    """One pass; 0 where all went well."""
    config = load_supervisor_config(options.config)
    worker = config.pick_worker(options.worker_id)
    prepare_state_dir(config)
    host = open_doors(config)
    try:
        with logging_as_configured(config, host.drive), opened_ledger(config) as ledger:
            return 0 if SinglePass(Parts(host, ledger), worker, heal=options.heal).run() else 1
    except BusyError as error:
        print(error)
        return 0
