"""`supervisor db upgrade`: bring the tables of the ledger up to date."""

from __future__ import annotations

import argparse

from supervisor_core.config import load_supervisor_config
from supervisor_core.ledger import schema
from supervisor_core.runtime.host import opened_ledger


def configure(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("upgrade", choices=["upgrade"], help="run the migrations that are missing")


def run(options: argparse.Namespace) -> int:
    """Opening the ledger is all it takes."""
    config = load_supervisor_config(options.config)
    with opened_ledger(config) as ledger:
        print(f"{ledger.path}: at version {schema.HEAD}.")
    return 0
