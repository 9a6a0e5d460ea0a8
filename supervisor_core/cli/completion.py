"""`supervisor completion bash|zsh|fish`: a script that completes subcommands, options, values and names.

shtab makes the script from the parsers. Only the names of workers and teams are looked up at each TAB, as quickly as
`status`.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser

from supervisor_core.cli import COMMANDS, GROUPS, parsers_of
from supervisor_core.cli.arguments import Parser, Subparsers, add_command
from supervisor_core.cli.host import read_config
from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.targets import ALL, HOST, TEAM, WORKER_ID
from supervisor_core.config.raw import state_dir_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from supervisor_core.config.raw import RawConfig

FILE_OPTIONS = ("--config", "--file", "--out", "--manifest", "--journal")
WORKER_OPTIONS = ("--worker", "--worker-id")
TARGETS = ("target", "words", "workers_named")
"""Positional arguments that may be a worker."""

ANSWER_SECONDS = 1.0
"""The time in which the daemon of a hub must answer: somebody waits after a TAB."""


def add_parser(subparsers: Subparsers) -> None:
    description = "Print a script that completes commands, options and worker names at TAB."
    example = "completion bash > ~/.local/share/bash-completion/completions/supervisor"
    parser = add_command(subparsers, "completion", run, description, example)
    shell = "the shell whose script is printed; workers, targets: the names that the script completes"
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "workers", "targets"], help=shell)


def run(arguments: argparse.Namespace) -> int:
    """Print the script, or the names that may follow: of workers, or of targets."""
    if arguments.shell in ("workers", "targets"):
        print("\n".join(_names(read_config(arguments.config), with_targets=arguments.shell == "targets")))
        return 0
    from contextlib import suppress

    from supervisor_core.common.errors import SupervisorError
    from supervisor_core.config.load import load_supervisor_config

    with suppress(SupervisorError):  # the commands of a usable configuration and of plug-ins are completed, too
        load_supervisor_config(arguments.config)
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    import shtab

    from supervisor_core.commands.catalog import CATALOG

    summaries = {name: text for group in GROUPS.values() for names, text in group.items() for name in names.split(", ")}
    summaries |= {name: command.summary for name, command in CATALOG.items() if command.extension is not None}
    root = ArgumentParser(prog="supervisor", add_help=False)
    subparsers = root.add_subparsers()
    for name in dict.fromkeys((*COMMANDS, *summaries)):
        parsers = parsers_of(name)
        summary = summaries.get(name) or parsers[name].description
        if name != "daemon":
            subparsers.add_parser(name, parents=[_with_completions(name, parsers[name])], add_help=False, help=summary)
            continue
        actions = subparsers.add_parser(name, help=summary).add_subparsers()
        for call, parser in parsers.items():
            if call.startswith("daemon "):
                action, parents = call.removeprefix("daemon "), [_with_completions(call, parser)]
                actions.add_parser(action, parents=parents, add_help=False, help=parser.description)
    return shtab.complete(root, shell)


def _with_completions(name: str, parser: Parser) -> Parser:
    import shtab

    from supervisor_core.cli.logs import LEVELS
    from supervisor_core.commands.catalog import FAMILIES
    from supervisor_core.common.log_events import LogEvent

    choices = {"--level": [level.lower() for level in LEVELS], "--event": [event.event for event in LogEvent]}
    for action in parser._actions:  # noqa: SLF001 (argparse offers no other way to list them)
        option = action.option_strings[-1] if action.option_strings else ""
        completed = ""
        if option in choices:
            action.choices = choices[option]
        elif option in FILE_OPTIONS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif option in WORKER_OPTIONS:
            completed = "workers"
        elif action.dest in TARGETS:
            action.help = ""  # shtab leaves out what has no help
            if name in FAMILIES:
                action.choices = [command.name.removeprefix(f"{name} ") for command in FAMILIES[name]]
            else:
                completed = "targets"
        elif action.help == SUPPRESS:
            action.choices = None
        if completed:
            action.complete = shtab.cmd(f"supervisor completion {completed} 2>/dev/null")  # type: ignore[attr-defined]
    return parser


def _names(raw: RawConfig, *, with_targets: bool) -> list[str]:
    """The names of workers, or of all targets. A shell may expand what it completes, so only valid ones are listed."""
    workers, teams, fleet = (raw.data.get(name) for name in ("workers", "teams", "fleet"))
    names, addresses = [str(name) for name in workers or () if WORKER_ID.fullmatch(str(name))], []
    if isinstance(fleet, dict) and fleet.get("role") == "hub":  # its daemon knows the workers of other hosts
        from supervisor_core.common.errors import SupervisorError
        from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

        try:
            status = ask(state_dir_of(raw), {"do": "status"}, ANSWER_SECONDS)
        except (SupervisorError, NotRunningError, UnresponsiveError):
            status = {}
        addresses = valid_addresses(str(worker.get("id")) for worker in status.get("workers") or ())
    if not with_targets:
        return [*names, *addresses]
    hosts = dict.fromkeys(HOST + address_of(address).host for address in addresses)
    teams = [TEAM + str(name) for name in teams or () if WORKER_ID.fullmatch(str(name))]
    return [*names, *addresses, *teams, *hosts, ALL]


def valid_addresses(worker_ids: Iterable[str]) -> list[str]:
    """Those of workers on other hosts that a shell doesn't expand."""
    return [name for name in worker_ids if is_address(name) and all(map(WORKER_ID.fullmatch, address_of(name)))]
