"""`supervisor run`: the daemon in the foreground, put together here and nowhere else."""

from __future__ import annotations

import argparse
import asyncio

from supervisor_core.config import load_supervisor_config
from supervisor_core.runtime.daemon import Daemon
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.host import logging_as_configured, opened_ledger, prepare_state_dir
from supervisor_core.runtime.ownership import daemon_ownership
from supervisor_core.runtime.parts import Parts


def configure(_parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(options: argparse.Namespace) -> int:
    """Be the supervisor until asked to stop."""
    config = load_supervisor_config(options.config)
    prepare_state_dir(config)
    with daemon_ownership(config.state_dir):
        host = open_doors(config)
        with logging_as_configured(config, host.drive), opened_ledger(config) as ledger:
            return asyncio.run(Daemon(Parts(host, ledger)).run())
