"""`supervisor completion bash|zsh|fish`: a script that completes subcommands, options, values and names.

shtab makes the script from the parsers. Only the names of workers and teams are looked up at each TAB, as quickly as
`status`.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser

from supervisor_core.cli import COMMANDS, GROUPS
from supervisor_core.cli.options import ACTIONS, LEVELS, SUBCOMMANDS, parser_of
from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.catalog import CATALOG, FAMILIES
from supervisor_core.commands.targets import ALL, HOST, TEAM, WORKER_ID
from supervisor_core.common.log_events import LogEvent
from supervisor_core.config.raw import state_dir_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from supervisor_core.config.raw import RawConfig

FILES = ("--config", "--file", "--out", "--manifest", "--journal")
"""Options that take a file."""

WORKERS = ("--worker", "--worker-id")
"""Options that take a worker."""

VALUES = {"--level": [level.lower() for level in LEVELS], "--event": [event.event for event in LogEvent]}
"""Options that take one of a few words."""

SECONDS = 1.0
"""The time in which the daemon of a hub must answer: somebody waits after a TAB."""

_TARGETS = ("target", "words", "workers_named")
"""Positional arguments that may be a worker."""


def run(options: argparse.Namespace) -> int:
    """Print the script, or the names that may follow: of workers, or of targets."""
    if options.shell in ("workers", "targets"):
        from supervisor_core.cli.status import read_quickly

        raw = read_quickly(options.config)
        found = _addresses_of_other_hosts(raw)
        names = [*_names(raw, "workers"), *found]
        if options.shell == "targets":
            hosts = dict.fromkeys(HOST + address_of(address).host for address in found)
            names += [*(TEAM + name for name in _names(raw, "teams")), *hosts, ALL]
        print("\n".join(names))
        return 0
    from contextlib import suppress

    from supervisor_core.common.errors import SupervisorError
    from supervisor_core.config.load import load_supervisor_config

    with suppress(SupervisorError):  # the commands of a usable configuration and of plug-ins are completed, too
        load_supervisor_config(options.config)
    print(script(options.shell))
    return 0


def script(shell: str) -> str:
    import shtab

    summaries = {name: text for group in GROUPS.values() for names, text in group.items() for name in names.split(", ")}
    added = {name: command.summary for name, command in CATALOG.items() if command.extension is not None}
    root = ArgumentParser(prog="supervisor", add_help=False)
    subcommands = root.add_subparsers()
    for name in (*COMMANDS, *added):
        summary = summaries.get(name) or added.get(name) or SUBCOMMANDS[name].description
        if name != "daemon":
            subcommands.add_parser(name, parents=[_parser(name)], add_help=False, help=summary)
            continue
        actions = subcommands.add_parser(name, help=summary).add_subparsers()
        for action in ACTIONS:
            about = SUBCOMMANDS[f"daemon {action}"].description
            actions.add_parser(action, parents=[_parser(f"daemon {action}")], add_help=False, help=about)
    return shtab.complete(root, shell)


def _parser(name: str) -> ArgumentParser:
    import shtab

    parser = parser_of(name)
    for action in parser._actions:  # noqa: SLF001 (argparse offers no other way to list them)
        option = next((word for word in reversed(action.option_strings)), "")
        if option in VALUES:
            action.choices = VALUES[option]
        elif option in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif option in WORKERS:
            action.complete = shtab.cmd("supervisor completion workers 2>/dev/null")  # type: ignore[attr-defined]
        elif action.dest in _TARGETS:
            action.help = ""  # shtab leaves out what has no help
            if name in FAMILIES:
                action.choices = [command.name.removeprefix(f"{name} ") for command in FAMILIES[name]]
            else:
                action.complete = shtab.cmd("supervisor completion targets 2>/dev/null")  # type: ignore[attr-defined]
        elif action.help == SUPPRESS:
            action.choices = None
    return parser


def _names(raw: RawConfig, section: str) -> list[str]:
    """The configured workers or teams. A shell may expand what it completes, so only valid names are printed."""
    found = raw.data.get(section)
    return [name for name in found if isinstance(name, str) and WORKER_ID.fullmatch(name)] if found else []


def _addresses_of_other_hosts(raw: RawConfig) -> list[str]:
    """The workers of other hosts, which the daemon of a hub knows; none without one."""
    fleet = raw.data.get("fleet")
    if not isinstance(fleet, dict) or fleet.get("role") != "hub":
        return []
    from supervisor_core.common.errors import SupervisorError
    from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

    try:
        status = ask(state_dir_of(raw), {"do": "status"}, SECONDS)
    except (SupervisorError, NotRunningError, UnresponsiveError):
        return []
    return addresses(str(worker.get("id")) for worker in status.get("workers") or ())


def addresses(worker_ids: Iterable[str]) -> list[str]:
    """Those of workers on other hosts that are valid."""
    return [name for name in worker_ids if is_address(name) and all(map(WORKER_ID.fullmatch, address_of(name)))]
