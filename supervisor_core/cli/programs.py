"""Programs in the foreground: `supervisor once`, `demo` and `playground`. A pass with nothing to do must be quick."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from supervisor_core.cli import INTERRUPTED
from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.common.errors import SupervisorError

MAX_PORT = 65535
MAX_LATENCY = 60_000  # milliseconds


def add_parser(subparsers: Subparsers) -> None:
    description = "Run one pass for a worker: its flags, waiting commands and health."
    once = add_command(subparsers, "once", run_once, description, "once --worker-id OrionMX --heal")
    workers = once.add_mutually_exclusive_group()
    which = "this worker; by default the only one or supervisor.default_worker"
    workers.add_argument("--worker-id", metavar="ID", help=which)
    workers.add_argument("--all", action="store_true", help="every worker of the configuration, one after the other")
    once.add_argument("--heal", action="store_true", help="start the worker if it should be running and isn't")
    description = "Try a supervisor with a worker and a local Slack in the browser."
    demo = add_command(subparsers, "demo", run_demo, description, "demo --tour")
    demo.add_argument("--port", type=_port, default=0, metavar="P", help="the page's port (default: any free port)")
    demo.add_argument("--fleet", action="store_true", help="a hub and three hosts instead of one host")
    demo.add_argument("--tour", action="store_true", help="play a session in the terminal, check it, and exit")
    description = "Run a local Slack for testing any bot."
    slack = add_command(subparsers, "playground", run_playground, description, "playground --port 8080")
    slack.add_argument("--port", type=_port, default=0, metavar="P", help="the port (default: any free port)")
    slack.add_argument("--manifest", metavar="FILE", help="the app's manifest (default: ./manifest.yml, else any app)")
    slack.add_argument("--journal", metavar="FILE", help="record everything that happens, as JSON lines")
    slack.add_argument("--rate-limits", action="store_true", help="enforce Slack's rate limits as well")
    slack.add_argument("--strict", action="store_true", help="refuse unknown arguments of methods")
    slack.add_argument("--latency", type=_latency, default=0.0, metavar="MS", help="delay each Web API call")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MAX_PORT:
        raise ArgumentTypeError(f"must be a port from 0 (any free one) to {MAX_PORT}, not {text!a}")
    return int(text)


def _latency(text: str) -> float:
    """Seconds, from a number of milliseconds below one minute."""
    if not text.isascii() or not text.isdigit() or int(text) >= MAX_LATENCY:
        raise ArgumentTypeError(f"must be milliseconds from 0 to {MAX_LATENCY - 1}, not {text!a}")
    return int(text) / 1000


def run_once(arguments: argparse.Namespace) -> int:
    """Run one pass, or one for each worker; the worst exit code counts."""
    from supervisor_core.config.load import load_supervisor_config
    from supervisor_core.daemon.single_pass import Supervisor

    workers = list(load_supervisor_config(arguments.config).workers) if arguments.all else [arguments.worker_id]
    code = 0
    for worker_id in workers:
        supervisor = Supervisor(arguments.config, worker_id)
        code = max(code, supervisor.run_once(heal=arguments.heal))
        if supervisor.busy_reason:
            print(supervisor.busy_reason)
        if code == INTERRUPTED:
            break
    return code


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the demo, which the installed chat provides."""
    from supervisor_core.daemon.chat import installed_chat

    with _playground_required("supervisor demo"):
        return installed_chat().run_demo(arguments.port, tour=arguments.tour, fleet=arguments.fleet)


def run_playground(arguments: argparse.Namespace) -> int:
    """Serve until interrupted. The playground is a separate distribution, loaded only here."""
    with _playground_required("supervisor playground"):
        command = import_module("slack_playground.command")
    code: int = command.run(arguments, program="supervisor")
    return code


@contextmanager
def _playground_required(command: str) -> Iterator[None]:
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
