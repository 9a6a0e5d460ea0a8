"""`supervisor config check`: validates the configuration, and shows its effect."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.alerts.outside.notify import check_notify_urls
from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.common.times import clock_time, format_span, from_text
from supervisor_core.config.diff import ConfigDiff, list_names
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.workers.health import HEARTBEAT_EXAMPLE
from supervisor_core.workers.heartbeats.files import heartbeat_file, heartbeat_path

ANSWER_SECONDS = 8.0
"""The daemon allows five for reading the file, which may be on a slow drive."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "config", run, "Validate the configuration.", "config check --config new.yaml")
    check = "validate it, and show what a running daemon would do with it"
    parser.add_argument("check", choices=["check"], help=check)


def run(arguments: argparse.Namespace) -> int:
    """Print a summary of a valid configuration; the loader reports every problem with its line."""
    config = load_supervisor_config(arguments.config)
    check_notify_urls(config)
    for line in (*summarize(config), *_describe_effect(config)):
        print(line)
    return 0


def summarize(config: SupervisorConfig) -> Iterator[str]:
    """A valid configuration in a line, and warnings about what wouldn't work on this host."""
    workers = ", ".join(config.workers) or "none"
    yield f"{config.path} is valid. Supervisor {config.supervisor.id}, workers: {workers}."
    yield from (f"Warning: {warning}" for warning in _find_warnings(config))
    ages = {
        worker.id: worker.heartbeat_max_age_seconds
        for worker in config.workers.values()
        if (file := heartbeat_file(config, worker)) and not Path(file).exists()
    }
    if ages:
        name, subject = (next(iter(ages)), "It") if len(ages) == 1 else ("NAME", "Each")
        yield f"Note: no heartbeat yet from {list_names(tuple(ages))}. {subject} must replace this file at least every"
        yield f"{format_span(min(ages.values()))}, with the current time as utc:"
        yield f"  {heartbeat_path(config.folder('state'), name)}"
        yield f"  {HEARTBEAT_EXAMPLE}"
        yield "For a worker that never writes one, set heartbeat_max_age_seconds: 0."


def _find_warnings(config: SupervisorConfig) -> Iterator[str]:
    """Valid settings that wouldn't work on this host now."""
    root = config.nas.root
    if root is not None and not root.is_dir():
        yield f"nas.root ({root}) doesn't exist. Mount or create it; the supervisor never creates it."
    if root is not None and config.state_dir.is_relative_to(root):
        yield "supervisor.state_dir is on the shared drive. Move it to a local disk."
    for folder, remedy in config.forgotten_folders.items():
        if folder.is_dir():
            yield f"{folder} exists, but nas.layout isn't set, so no flag or pause is read. {remedy}"
            break
    for worker in config.workers.values():
        program = config.command_for(worker)[0]
        path = config.environment_for(worker).get("PATH")
        if shutil.which(program, path=path) is None and not (worker.cwd / program).is_file():
            yield f"workers.{worker.id}.command: the program {program} doesn't exist."
        if not worker.cwd.is_dir():
            yield f"workers.{worker.id}.cwd: the folder {worker.cwd} doesn't exist."


def _describe_effect(config: SupervisorConfig) -> Iterator[str]:
    """The effect of this file on the running daemon, or on one that starts with it."""
    try:
        answer = ask(str(config.state_dir), {"do": "config", "path": str(config.path)}, ANSWER_SECONDS)
    except NotRunningError:
        workers = config.workers.values()
        starting = tuple(worker.id for worker in workers if worker.enabled and not worker.quarantined)
        ignored = tuple(worker.id for worker in workers if not worker.enabled or worker.quarantined)
        note = f" It leaves {list_names(ignored)} alone." if ignored else ""
        names = list_names(starting) or "no worker"
        yield f"No daemon is running in {config.state_dir}. When it starts, it runs {names}, unless paused.{note}"
    except UnresponsiveError:
        yield f"The daemon doesn't answer within {ANSWER_SECONDS:g} s, so the effect of this file is unknown."
    except ControlError as error:
        yield f"The daemon can't tell the effect of this file. {error}"
    else:
        yield from _describe_answer(answer, str(config.path))


def _describe_answer(answer: dict[str, Any], path: str) -> Iterator[str]:
    if answer["path"] != path:
        yield f"The daemon uses {answer['path']}. If this file replaced it:"
    if answer["difference"] is None:
        yield "The daemon can't use this file in its environment and would keep its current configuration:"
        yield from (f"  {line}" for line in str(answer["refused"]).splitlines())
        return
    diff = ConfigDiff.from_json(answer["difference"])
    version = f"version {answer['version']}, since {clock_time(from_text(answer['since']), datetime.now(UTC))}"
    if diff.empty:
        yield f"The daemon already uses this configuration ({version})."
    else:
        yield f"Changes for the daemon (at {version}):"
        yield from (f"  {change}" for change in diff.in_words())
    if answer["path"] != path and answer["problem"]:
        yield f"  Current problem: {answer['problem']}"
