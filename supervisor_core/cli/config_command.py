"""`supervisor config check`: is the configuration right, and what does it describe."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator

from supervisor_core.config import SupervisorConfig, load_supervisor_config


def configure(parser: argparse.ArgumentParser) -> None:
    """Its words."""
    parser.add_argument("check", choices=["check"], help="validate it")


def run(options: argparse.Namespace) -> int:
    """Every problem is said with its line by the loader; what is right is summed up here."""
    config = load_supervisor_config(options.config)
    workers = ", ".join(config.workers) or "none"
    print(f"{config.path}: valid. Supervisor {config.supervisor.id}, workers: {workers}.")
    for remark in _remarks(config):
        print(f"But: {remark}")
    return 0


def _remarks(config: SupervisorConfig) -> Iterator[str]:
    """What is right as a configuration, and would not work here and now."""
    if not config.nas.root.is_dir():
        yield f"nas.root, {config.nas.root}, is not there; it is never made, since it may be a mount."
    if config.state_dir.is_relative_to(config.nas.root):
        yield "supervisor.state_dir lies on the drive; it must be on a local disk."
    for worker in config.workers.values():
        program = config.command_for(worker)[0]
        path = config.environment_for(worker).get("PATH")
        if shutil.which(program, path=path) is None and not (worker.cwd / program).is_file():
            yield f"workers.{worker.id}.command: there is no program {program}."
        if not worker.cwd.is_dir():
            yield f"workers.{worker.id}.cwd: there is no folder {worker.cwd}."
