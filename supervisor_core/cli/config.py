"""`supervisor config check` validates the configuration; `supervisor import` converts another tool's."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import UsageError
from supervisor_core.common.times import clock_time, from_text
from supervisor_core.config.diff import ConfigDiff, list_names
from supervisor_core.config.imports.formats import convert_file
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.raw import ENV_FILE
from supervisor_core.config.worker_settings import SAFE
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.workers.heartbeats.files import heartbeat_path

ANSWER_SECONDS = 8.0
"""The daemon allows five for reading the file, which may be on a slow drive."""


def run(options: argparse.Namespace) -> int:
    """Print a summary of a valid configuration; the loader reports every problem with its line."""
    config = load_supervisor_config(options.config)
    workers = ", ".join(config.workers) or "none"
    print(f"{config.path} is valid. Supervisor {config.supervisor.id}, workers: {workers}.")
    for remark in _remarks(config):
        print(f"Warning: {remark}")
    for line in (*_without_heartbeats(config), *_with_a_daemon(config)):
        print(line)
    return 0


def _with_a_daemon(config: SupervisorConfig) -> Iterator[str]:
    """The effect of this file on the running daemon, or on one that starts with it."""
    try:
        answer = ask(str(config.state_dir), {"do": "config", "path": str(config.path)}, ANSWER_SECONDS)
    except NotRunningError:
        yield from _at_its_start(config)
    except UnresponsiveError:
        yield f"The daemon doesn't answer within {ANSWER_SECONDS:g} s, so the effect of this file is unknown."
    except ControlError as error:
        yield f"The daemon can't tell the effect of this file. {error}"
    else:
        yield from in_words(answer, str(config.path))


def in_words(answer: dict[str, Any], path: str) -> Iterator[str]:
    """The daemon's answer for people."""
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
        yield from (f"  {words}" for words in diff.in_words())
    if answer["path"] != path and answer["problem"]:
        yield f"  Current problem: {answer['problem']}"


def _at_its_start(config: SupervisorConfig) -> Iterator[str]:
    workers = config.workers.values()
    starting = tuple(each.id for each in workers if each.enabled and not each.quarantined)
    resting = tuple(each.id for each in workers if not each.enabled or each.quarantined)
    rest = f" It leaves {list_names(resting)} alone." if resting else ""
    cared_for = list_names(starting) or "no worker"
    yield f"No daemon is running in {config.state_dir}. When it starts, it runs {cared_for}, unless paused.{rest}"


def _without_heartbeats(config: SupervisorConfig) -> Iterator[str]:
    """A note about workers that haven't written a heartbeat yet, and whose configuration doesn't mention heartbeats."""
    setting, folder = "heartbeat_max_age_seconds", config.folder("state")
    silent = [
        worker
        for worker in config.workers.values()
        if setting not in worker.model_fields_set and not heartbeat_path(folder, worker.id).exists()
    ]
    if silent:
        names = list_names(tuple(worker.id for worker in silent))
        advice = f"For a worker that never writes one, set {setting}: 0."
        yield f"Note: no heartbeat yet from {names}. {advice}"


def _remarks(config: SupervisorConfig) -> Iterator[str]:
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


def run_import(options: argparse.Namespace) -> int:
    """Convert another tool's configuration, and name what has no place in ours."""
    source, target = Path(options.file), Path(options.output)
    found, conversion = convert_file(source, options.worker_id)
    mode = "w" if options.force else "x"
    try:
        with target.open(mode, encoding="utf-8") as file:
            file.write(conversion.text(str(source)))
    except FileExistsError:
        raise UsageError(f"{target} exists. Choose another --output, or replace it with --force.") from None
    for reason in dict.fromkeys(conversion.unmapped.values()):
        keys = ", ".join(key for key, each in conversion.unmapped.items() if each == reason)
        print(f"Not converted: {keys}: {reason}.", file=sys.stderr)
    for note in conversion.notes:
        print(f"Note: {note}", file=sys.stderr)
    folders = {str(worker["cwd"]) for worker in conversion.document["workers"].values() if "cwd" in worker}
    for folder in map(Path, sorted(folders)):
        if target.absolute().is_relative_to(folder):
            print(f"Note: {target} and its state folder are in {folder}. Keep them out of the code.", file=sys.stderr)
    if needed := [name for name in conversion.variables if name not in SAFE]:
        beside = target.with_name(ENV_FILE)
        print(f"Note: set {', '.join(needed)} in {beside} (NAME=value, mode 0600).", file=sys.stderr)
    workers = ", ".join(conversion.document["workers"])
    print(f"Converted {source} ({found.name}) to {target}. Workers: {workers}.")
    print(f"Next: supervisor config check --config {target}")
    return 0
