"""Programs in the foreground: `supervisor run`, `once`, `demo` and `playground`.

Each imports what it needs when it's called: a pass with nothing to do must be quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from supervisor_core.cli import INTERRUPTED
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.slack_settings import slack_credentials

if TYPE_CHECKING:
    from supervisor_core.workers.context import DaemonContext, HostContext


def run_run(options: argparse.Namespace) -> int:
    """Run the supervisor until it's told to stop. To restart, this process runs the program anew.

    The garbage collector pauses until the daemon is up: it would look through all that is imported again and again.
    """
    import gc

    gc.disable()
    import asyncio

    from supervisor_core.alerts.outside.notify import check_notify_urls
    from supervisor_core.daemon.control.lifecycle import REEXEC, run_command_line
    from supervisor_core.daemon.environment import logging_as_configured, opened_ledger, prepare_state_dir
    from supervisor_core.daemon.ownership import KEPT_LOCK, daemon_ownership
    from supervisor_core.processes import children
    from supervisor_core.workers.context import DaemonContext, open_doors

    children.inherit()
    config = load_supervisor_config(options.config)
    check_notify_urls(config)
    prepare_state_dir(config)
    with daemon_ownership(config.state_dir) as lock:
        host = open_doors(config)
        with logging_as_configured(config, host.drive, to_stderr=not options.quiet):
            if config.ledger_url:
                code = _run_hub(config, host, quiet=options.quiet)
            else:
                with opened_ledger(config) as ledger:
                    code = asyncio.run(_serve(config, DaemonContext(host, ledger)))
        if code == REEXEC:
            sys.stdout.flush()
            sys.stderr.flush()
            program = run_command_line(config.path, quiet=options.quiet)
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
        return asyncio.run(_serve(config, DaemonContext(host, ledger)))


async def _serve(config: SupervisorConfig, parts: DaemonContext) -> int:
    """Compose and run the daemon, with Slack if it's configured."""
    from supervisor_core.daemon.daemon import Daemon
    from supervisor_core.daemon.wiring import build_approvals, build_scheduler, installed_chat, reach_of
    from supervisor_core.intake.approvals.rights import host_rights

    credentials = slack_credentials(config.environ, folder=config.path.parent)
    no_chat = "" if config.slack.enabled else "slack.enabled is false"
    if credentials.bot_token is None or credentials.app_token is None:
        no_chat = no_chat or "SLACK_BOT_TOKEN and SLACK_APP_TOKEN are not set"
    reach = reach_of(parts)
    if no_chat:
        approvals = build_approvals(reach.context, code=reach.code)
        scheduler = partial(build_scheduler, reach.context, approvals)
        return await Daemon(parts, no_chat=no_chat, scheduler=scheduler, reach=reach).run()
    chat = installed_chat().connect(config, parts.ledger, credentials, host_rights(lambda: reach.context.host.config))
    approvals = build_approvals(reach.context, chat.rights, reach.code)
    scheduler = partial(build_scheduler, reach.context, approvals, rights=chat.rights, answering=chat.answer)
    return await Daemon(parts, partial(chat.service, approvals), scheduler=scheduler, reach=reach).run()


def run_once(options: argparse.Namespace) -> int:
    """Run one pass, or one for each worker; the worst exit code counts."""
    from supervisor_core.daemon.single_pass import Supervisor

    workers = list(load_supervisor_config(options.config).workers) if options.all else [options.worker_id]
    code = 0
    for worker_id in workers:
        supervisor = Supervisor(options.config, worker_id)
        code = max(code, supervisor.run_once(heal=options.heal))
        if supervisor.held_by:
            print(supervisor.held_by)
        if code == INTERRUPTED:
            break
    return code


def run_playground(options: argparse.Namespace) -> int:
    """Serve until interrupted. The playground is a separate distribution, loaded only here."""
    with _playground_needed("supervisor playground"):
        command = import_module("slack_playground.command")
    code: int = command.run(options, program="supervisor")
    return code


@contextmanager
def _playground_needed(command: str) -> Iterator[None]:
    """Turn the missing distribution `slack-playground` into one clear line."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "slack_playground":
            raise
        raise SupervisorError(
            f"`{command}` needs the package slack-playground, which isn't installed.",
            remedy="Install it with the extra `demo`: pip install 'supervisor-chatops[demo]'. In a checkout:"
            " pip install ./playground.",
        ) from error


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo, which the installed chat provides."""
    from supervisor_core.daemon.wiring import installed_chat

    with _playground_needed("supervisor demo"):
        return installed_chat().run_demo(options.port, tour=options.tour, fleet=options.fleet)
