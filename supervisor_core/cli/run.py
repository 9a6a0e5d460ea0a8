"""`supervisor run`, the daemon in the foreground, and `supervisor once`, a single pass.

Each imports what it needs when it is called: a pass with nothing to do must be quick.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.slack_settings import slack_credentials

if TYPE_CHECKING:
    from supervisor_core.workers.context import DaemonContext


def configure_run(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--quiet", action="store_true", help="log into files only, and not to stderr as well")


def run_run(options: argparse.Namespace) -> int:
    """Be the supervisor until asked to stop."""
    import asyncio

    from supervisor_core.daemon.environment import logging_as_configured, opened_ledger, prepare_state_dir
    from supervisor_core.daemon.ownership import daemon_ownership
    from supervisor_core.workers.context import DaemonContext, open_doors

    config = load_supervisor_config(options.config)
    prepare_state_dir(config)
    with daemon_ownership(config.state_dir):
        host = open_doors(config)
        with logging_as_configured(config, host.drive, to_stderr=not options.quiet), opened_ledger(config) as ledger:
            return asyncio.run(_serve(config, DaemonContext(host, ledger)))


async def _serve(config: SupervisorConfig, parts: DaemonContext) -> int:
    """Put the daemon together, with Slack where it is configured."""
    from supervisor_core.daemon.daemon import Daemon
    from supervisor_core.daemon.wiring import build_approvals, build_scheduler, installed_chat
    from supervisor_core.intake.approvals.rights import host_rights

    credentials = slack_credentials(config.environ, folder=config.path.parent)
    no_chat = "" if config.slack.enabled else "slack.enabled is false"
    if credentials.bot_token is None or credentials.app_token is None:
        no_chat = no_chat or "SLACK_BOT_TOKEN and SLACK_APP_TOKEN are not set"
    if no_chat:
        approvals = build_approvals(parts)
        return await Daemon(parts, no_chat=no_chat, scheduler=partial(build_scheduler, parts, approvals)).run()
    chat = installed_chat().connect(config, parts.ledger, credentials, host_rights(lambda: parts.host.config))
    approvals = build_approvals(parts, chat.rights)
    scheduler = partial(build_scheduler, parts, approvals, rights=chat.rights, answering=chat.answer)
    return await Daemon(parts, partial(chat.service, approvals), scheduler=scheduler).run()


def configure_once(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--worker-id", metavar="ID", help="else the only worker, else supervisor.default_worker")
    parser.add_argument("--heal", action="store_true", help="start the worker if it should run and does not")


def run_once(options: argparse.Namespace) -> int:
    """One pass; 0 where all went well."""
    from supervisor_core.daemon.single_pass.supervisor import Supervisor

    supervisor = Supervisor(options.config, options.worker_id)
    code = supervisor.run_once(heal=options.heal)
    if supervisor.held_by:
        print(supervisor.held_by)
    return code
