"""`supervisor config check`: is the configuration right, and what would a daemon do with it."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from typing import Any

from supervisor_core.config.diff import ConfigDiff, list_names
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask

ANSWER_SECONDS = 8.0
"""The daemon gives the file five; it may lie on a drive that is slow."""


def run(options: argparse.Namespace) -> int:
    """Every problem is said with its line by the loader; what is right is summed up here."""
    config = load_supervisor_config(options.config)
    workers = ", ".join(config.workers) or "none"
    print(f"{config.path}: valid. Supervisor {config.supervisor.id}, workers: {workers}.")
    for remark in _remarks(config):
        print(f"But: {remark}")
    for line in _with_a_daemon(config):
        print(line)
    return 0


def _with_a_daemon(config: SupervisorConfig) -> Iterator[str]:
    """What the daemon of this state folder would do with this file, in its own words; without one, at its start."""
    try:
        answer = ask(str(config.state_dir), {"do": "config", "path": str(config.path)}, ANSWER_SECONDS)
    except NotRunningError:
        yield from _at_its_start(config)
    except UnresponsiveError:
        yield f"A daemon runs and does not answer within {ANSWER_SECONDS:g} s: what it would do with this is not known."
    except ControlError as error:
        yield f"A daemon runs and can't say what it would do with this. {error}"
    else:
        yield from in_words(answer, str(config.path))


def in_words(answer: dict[str, Any], path: str) -> Iterator[str]:
    """The daemon's answer for people."""
    if answer["path"] != path:
        yield f"The daemon runs with {answer['path']}; if this file took its place:"
    if answer["difference"] is None:
        yield "The daemon can't use it in its own environment, and would go on with what it has:"
        yield from (f"  {line}" for line in str(answer["refused"]).splitlines())
        return
    diff = ConfigDiff.from_json(answer["difference"])
    if diff.empty:
        yield f"The daemon has all of it in force (version {answer['version']}, since {answer['since']})."
    else:
        yield f"To the daemon (version {answer['version']}, since {answer['since']}) it is news:"
        yield from (f"  {words}" for words in diff.in_words())
    if answer["path"] != path and answer["problem"]:
        yield f"  As it is now: {answer['problem']}"


def _at_its_start(config: SupervisorConfig) -> Iterator[str]:
    workers = config.workers.values()
    starting = tuple(each.id for each in workers if each.enabled and not each.quarantined)
    resting = tuple(each.id for each in workers if not each.enabled or each.quarantined)
    rest = f"; at rest stay {list_names(resting)}" if resting else ""
    cared_for = list_names(starting) or "no worker"
    yield f"No daemon runs in {config.state_dir}; at its start: it looks after {cared_for}, unless paused{rest}."


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
