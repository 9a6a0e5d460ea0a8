"""`supervisor config check`: is the configuration right, and what does it describe."""

from __future__ import annotations

import argparse

from supervisor_core.config import load_supervisor_config


def configure(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("check", choices=["check"], help="validate it")


def run(options: argparse.Namespace) -> int:
    """Every problem is said with its line by the loader; what is right is summed up here."""
    config = load_supervisor_config(options.config)
    workers = ", ".join(config.workers) or "none"
    print(f"{config.path}: valid. Supervisor {config.supervisor.id}, workers: {workers}.")
    return 0
