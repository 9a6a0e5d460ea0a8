"""`supervisor daemon start`, `stop` and `restart`: the daemon in the background. Its workers outlive it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from supervisor_core.alerts.outside.notify import check_notify_urls
from supervisor_core.cli.host import load_config
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.control.lifecycle import (
    StoppedDaemon,
    reexec_daemon,
    start_daemon,
    stop_daemon,
)
from supervisor_core.daemon.environment import prepare_state_dir


def run_start(options: argparse.Namespace) -> int:
    """Check the configuration first, so that its errors appear here and not in a log."""
    if getattr(options, "workers_named", ()):
        raise _meant(options.workers_named, "start", "resume")
    config = load_supervisor_config(options.config)
    check_notify_urls(config)
    prepare_state_dir(config)
    started = start_daemon(config.state_dir, config.path, config.logging.file)
    if started.stale_pid:
        print(f"The previous daemon (pid {started.stale_pid}) crashed. The new one takes over its workers.")
    print(f"Started: pid {started.pid}")
    for problem in started.problems:
        print(f"  {problem}")
    return 1 if started.problems else 0


def _meant(words: Sequence[str], typed: str, verb: str) -> UsageError:
    """The error for a worker named in a command for the daemon."""
    meant = f"`supervisor {verb} {' '.join(words)}`"
    return UsageError(f"`supervisor {typed}` is for the daemon and takes no worker.", remedy=f"Did you mean {meant}?")


def run_stop(options: argparse.Namespace) -> int:
    """Stop the daemon, and check that it's gone."""
    if options.workers_named:
        raise _meant(options.workers_named, "stop", "pause")
    config = load_config(options.config)
    ended = stop_daemon(config.state_dir, workers=options.workers) if config.state_dir.is_dir() else None
    stuck = _end_workers(config) if options.workers and config.state_dir.is_dir() else []
    workers = none_left = ""
    if options.workers:
        workers = "some of its workers couldn't be stopped" if stuck else "its workers were stopped"
        none_left = " Its workers are stopped." if ended is None and not stuck else ""
    print(f"{in_words(ended, workers)}{none_left}")
    for words in stuck:
        print(f"  {words}")
    if config.fleet.server.run:
        from supervisor_core.fleet.transport.server import NatsServer

        if server := NatsServer(config.fleet_folder).identity:
            print(f"The NATS server keeps running, so that no host is cut off. To stop it, too: kill {server.pid}")
    return 1 if stuck else 0


def in_words(ended: StoppedDaemon | None, of_workers: str = "") -> str:
    """The outcome for the daemon, and for its workers if it's known."""
    if ended is None:
        return "No daemon was running."
    why = "didn't stop when asked" if ended.answer else "didn't answer"
    how = "" if ended.how == "asked" else f", {ended.how} because it {why}"
    if of_workers:
        return f"Stopped: pid {ended.pid}{how}; {of_workers}"
    workers = ", ".join(ended.answer.get("workers", [])) or ("unknown" if not ended.answer else "none")
    return f"Stopped: pid {ended.pid}{how}. Workers still running: {workers}"


def _end_workers(config: SupervisorConfig) -> list[str]:
    """Stop every running worker, as its pass; returns the failures in words."""
    from supervisor_core.daemon.ownership import pass_ownership
    from supervisor_core.workers.context import open_doors
    from supervisor_core.workers.worker import end_watcher

    host, stuck = open_doors(config), []
    for worker in config.workers.values():
        if worker.quarantined:
            print(f"{worker.id} was left alone: it's quarantined in the configuration.")
            continue
        try:
            with pass_ownership(config.state_dir, worker.id):
                ended = end_watcher(host.processes, host.drive, config, worker, "supervisor stop --workers")
        except (SupervisorError, OSError) as error:  # nobody can tell whether it runs: the others end
            stuck.append(f"{worker.id} couldn't be stopped: {error}")
            continue
        if not ended.report.stopped:
            stuck.append(f"{worker.id} is stuck: {', '.join(map(str, ended.report.survivors))} couldn't be stopped")
        elif ended.left:
            stuck.append(f"{worker.id} may still run. {ended.doubt}")
    return stuck


def run_restart(options: argparse.Namespace) -> int:
    """Check the configuration before anything stops; with a broken one the old daemon keeps running.

    The daemon restarts in place if it can, else it's stopped and started.
    """
    config = load_supervisor_config(options.config)
    check_notify_urls(config)
    restarted = reexec_daemon(config.state_dir, config.path, config.logging.file)
    if restarted is not None:
        print(f"Restarted: pid {restarted.pid}. Workers still running: {', '.join(restarted.workers) or 'none'}")
        for problem in restarted.problems:
            print(f"  {problem}")
        return 1 if restarted.problems else 0
    ended = stop_daemon(config.state_dir) if config.state_dir.is_dir() else None
    print(in_words(ended))
    return run_start(options)
