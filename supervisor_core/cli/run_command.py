"""`supervisor run`: the daemon in the foreground, put together here and nowhere else."""

from __future__ import annotations

import argparse
import asyncio
from functools import partial
from importlib import import_module

from supervisor_core.config import SupervisorConfig, load_supervisor_config, slack_credentials
from supervisor_core.desk.making import approvals_of, scheduler_of
from supervisor_core.desk.rights import host_rights
from supervisor_core.runtime.daemon import Daemon
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.host import logging_as_configured, opened_ledger, prepare_state_dir
from supervisor_core.runtime.ownership import daemon_ownership
from supervisor_core.runtime.parts import Parts


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--quiet", action="store_true", help="log into files only, and not to stderr as well")


def run(options: argparse.Namespace) -> int:
    """Be the supervisor until asked to stop."""
    config = load_supervisor_config(options.config)
    prepare_state_dir(config)
    with daemon_ownership(config.state_dir):
        host = open_doors(config)
        with logging_as_configured(config, host.drive, to_stderr=not options.quiet), opened_ledger(config) as ledger:
            return asyncio.run(_serve(config, Parts(host, ledger)))


async def _serve(config: SupervisorConfig, parts: Parts) -> int:
    """Put the daemon together, with Slack where it is configured. The bot is loaded by name: the core knows none."""
    credentials = slack_credentials(config.environ, folder=config.path.parent)
    no_chat = "" if config.slack.enabled else "slack.enabled is false"
    if credentials.bot_token is None or credentials.app_token is None:
        no_chat = no_chat or "SLACK_BOT_TOKEN and SLACK_APP_TOKEN are not set"
    if no_chat:
        approvals = approvals_of(parts)
        return await Daemon(parts, no_chat=no_chat, scheduler=partial(scheduler_of, parts, approvals)).run()
    rights = import_module("bot.rights").ChatRights(host_rights(lambda: parts.host.config))
    answers = import_module("bot.answers").ChatAnswers()
    approvals = approvals_of(parts, rights)
    service = import_module("bot.service").SlackService
    chat = partial(service, config, parts.ledger, credentials, approvals, rights, answers)
    scheduler = partial(scheduler_of, parts, approvals, rights=rights, answering=answers)
    return await Daemon(parts, chat, scheduler=scheduler).run()
