"""`supervisor daemon start`, `stop`, `restart` and `run`. The workers outlive the daemon."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.cli.host import load_config
from supervisor_core.common.errors import SupervisorError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervisor_core.config.load import SupervisorConfig
    from supervisor_core.daemon.control.lifecycle import StoppedDaemon
    from supervisor_core.workers.context import DaemonContext, HostContext

ACTIONS = ("start", "stop", "restart", "logs", "run")


def add_parser(subparsers: Subparsers) -> None:
    from supervisor_core.cli.logs import add_event_options, show_events

    description = "Start, stop or restart the daemon, or show its events."
    parser = add_command(subparsers, "daemon", _require_action, description, "daemon restart")
    parser.add_argument("action", choices=ACTIONS, help="`supervisor daemon ACTION --help` shows its options")
    for prefix in ("daemon ", ""):  # `start`, `stop` and `run` are older names
        description = "Start the daemon in the background, and wait until it's up."
        parser = add_command(subparsers, f"{prefix}start", start, description, "daemon start")
        parser.add_argument("workers_named", nargs="*", help=argparse.SUPPRESS)
        description = "Stop the daemon. Its workers keep running."
        parser = add_command(subparsers, f"{prefix}stop", stop, description, "daemon stop")
        parser.add_argument("workers_named", nargs="*", help=argparse.SUPPRESS)
        parser.add_argument("--workers", action="store_true", help="stop the workers first")
        description = "Run the daemon in the foreground."
        parser = add_command(subparsers, f"{prefix}run", run, description, "daemon run --quiet")
        parser.add_argument("--quiet", action="store_true", help="log to files only, not to stderr")
    description = "Restart the daemon. Its workers keep running."
    add_command(subparsers, "daemon restart", restart, description, "daemon restart")
    description, example = "Show the daemon's events, newest last.", "daemon logs -f --level warning"
    add_event_options(add_command(subparsers, "daemon logs", show_events, description, example))


def _require_action(_arguments: argparse.Namespace) -> int:
    raise UsageError("Name the action before the options, as in `supervisor daemon start --config FILE`.")


def start(arguments: argparse.Namespace) -> int:
    """Check the configuration first, so that its errors appear here and not in a log."""
    from supervisor_core.daemon.control.lifecycle import start_daemon
    from supervisor_core.daemon.environment import prepare_state_dir

    _refuse_workers(arguments, "start", "resume")
    config = _load_checked(arguments)
    prepare_state_dir(config)
    started = start_daemon(config.state_dir, config.path, config.logging.file)
    if started.stale_pid:
        print(f"The previous daemon (pid {started.stale_pid}) crashed. The new one takes over its workers.")
    print("\n  ".join([f"Started: pid {started.pid}", *started.problems]))
    return 1 if started.problems else 0


def restart(arguments: argparse.Namespace) -> int:
    """Check the configuration before anything stops; with a broken one the old daemon keeps running.

    The daemon restarts in place if it can, else it's stopped and started.
    """
    from supervisor_core.daemon.control.lifecycle import reexec_daemon, stop_daemon

    config = _load_checked(arguments)
    restarted = reexec_daemon(config.state_dir, config.path, config.logging.file)
    if restarted is not None:
        workers = ", ".join(restarted.workers) or "none"
        print("\n  ".join([f"Restarted: pid {restarted.pid}. Workers still running: {workers}", *restarted.problems]))
        return 1 if restarted.problems else 0
    print(_describe_stop(stop_daemon(config.state_dir) if config.state_dir.is_dir() else None))
    return start(arguments)


def _load_checked(arguments: argparse.Namespace) -> SupervisorConfig:
    from supervisor_core.alerts.outside.notify import check_notify_urls
    from supervisor_core.config.load import load_supervisor_config

    config = load_supervisor_config(arguments.config)
    check_notify_urls(config)
    return config


def _refuse_workers(arguments: argparse.Namespace, action: str, verb: str) -> None:
    """Refuse a worker named in a command for the daemon."""
    if names := getattr(arguments, "workers_named", ()):
        remedy = f"Did you mean `supervisor {verb} {' '.join(names)}`?"
        raise UsageError(f"`supervisor {action}` is for the daemon and takes no worker.", remedy=remedy)


def stop(arguments: argparse.Namespace) -> int:
    """Stop the daemon, and check that it's gone."""
    from supervisor_core.daemon.control.lifecycle import stop_daemon

    _refuse_workers(arguments, "stop", "pause")
    config = load_config(arguments.config)
    has_state = config.state_dir.is_dir()
    stopped = stop_daemon(config.state_dir, workers=arguments.workers) if has_state else None
    problems = _stop_workers(config) if arguments.workers and has_state else []
    message = _describe_stop(stopped)
    if arguments.workers and stopped is not None:
        outcome = "some of its workers couldn't be stopped" if problems else "its workers were stopped"
        message = f"{_describe_stop(stopped, with_workers=False)}; {outcome}"
    elif arguments.workers and not problems:
        message += " Its workers are stopped."
    print("\n  ".join([message, *problems]))
    if config.fleet.server.run:
        from supervisor_core.fleet.transport.server import NatsServer

        if server := NatsServer(config.fleet_folder).identity:
            print(f"The NATS server keeps running, so that no host is cut off. To stop it, too: kill {server.pid}")
    return 1 if problems else 0


def _describe_stop(stopped: StoppedDaemon | None, *, with_workers: bool = True) -> str:
    if stopped is None:
        return "No daemon was running."
    message = f"Stopped: pid {stopped.pid}"
    if stopped.how != "asked":
        why = "didn't stop when asked" if stopped.answer else "didn't answer"
        message += f", {stopped.how} because it {why}"
    workers = ", ".join(stopped.answer.get("workers", [])) or ("none" if stopped.answer else "unknown")
    return f"{message}. Workers still running: {workers}" if with_workers else message


def _stop_workers(config: SupervisorConfig) -> list[str]:
    """Stop every running worker, as its pass; returns the problems."""
    from supervisor_core.daemon.ownership import pass_ownership
    from supervisor_core.workers.context import open_doors
    from supervisor_core.workers.worker import end_watcher

    host, problems = open_doors(config), []
    for worker in config.workers.values():
        if worker.quarantined:
            print(f"{worker.id} was left alone: it's quarantined in the configuration.")
            continue
        try:
            with pass_ownership(config.state_dir, worker.id):
                ended = end_watcher(host, worker, "supervisor stop --workers")
        except (SupervisorError, OSError) as error:  # nobody can tell whether it runs: the others end
            problems.append(f"{worker.id} couldn't be stopped: {error}")
            continue
        if not ended.report.stopped:
            survivors = ", ".join(map(str, ended.report.survivors))
            problems.append(f"{worker.id} is stuck: {survivors} couldn't be stopped")
        elif ended.left:
            problems.append(f"{worker.id} may still run. {ended.doubt}")
    return problems


def run(arguments: argparse.Namespace) -> int:
    """Run the daemon until it's told to stop. To restart, this process runs the program anew.

    The garbage collector pauses until the daemon is up: it would look through all that is imported again and again.
    """
    import gc

    gc.disable()
    import asyncio

    from supervisor_core.daemon.control.lifecycle import REEXEC, run_command_line
    from supervisor_core.daemon.environment import logging_as_configured, opened_ledger, prepare_state_dir
    from supervisor_core.daemon.ownership import KEPT_LOCK, daemon_ownership
    from supervisor_core.processes import children
    from supervisor_core.workers.context import DaemonContext, open_doors

    children.inherit()
    config = _load_checked(arguments)
    prepare_state_dir(config)
    with daemon_ownership(config.state_dir) as lock:
        host = open_doors(config)
        with logging_as_configured(config, host.drive, to_stderr=not arguments.quiet):
            if config.ledger_url:
                code = _run_hub(config, host, quiet=arguments.quiet)
            else:
                with opened_ledger(config) as ledger:
                    code = asyncio.run(_serve(DaemonContext(host, ledger)))
        if code == REEXEC:
            sys.stdout.flush()
            sys.stderr.flush()
            program = run_command_line(config.path, quiet=arguments.quiet)
            os.execve(program[0], program, {**os.environ, KEPT_LOCK: str(lock.keep())})  # noqa: S606 (our own program)
    return code


def _run_hub(config: SupervisorConfig, host: HostContext, *, quiet: bool) -> int:
    """Wait until this machine is the hub, and then be it."""
    import asyncio

    from supervisor_core.daemon.control.lifecycle import run_command_line
    from supervisor_core.daemon.environment import opened_ledger
    from supervisor_core.daemon.services.standby import Standby, record_takeover, stand_by_again
    from supervisor_core.fleet.hub.ledger import HubLock
    from supervisor_core.workers.context import DaemonContext

    program = run_command_line(config.path, quiet=quiet)
    lock = HubLock(config.ledger_url, config.supervisor.id)
    code = asyncio.run(Standby(config, lock).wait())
    if code is not None:
        return code
    with lock.kept(partial(stand_by_again, program)), opened_ledger(config, lock) as ledger:
        record_takeover(config, ledger, lock.machine)
        return asyncio.run(_serve(DaemonContext(host, ledger)))


async def _serve(context: DaemonContext) -> int:
    from supervisor_core.daemon.app import Application

    return await Application(context).run()
